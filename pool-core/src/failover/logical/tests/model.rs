//! Random events against a literal transcription of the reference's section 1, in blocking style.

use proptest::prelude::*;

use super::super::super::sim::Link;
use super::super::super::{FailoverPolicy, Outcome};
use super::*;
use crate::verdict::Verdict;

const CONNECT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
enum Event {
    Commit,
    Query,
    Set(usize, HostState),
    SetReadOnly(bool),
    Wait(u64),
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    hosts: usize,
    turns: u32,
    seconds: u64,
    queries: u64,
    read_only: bool,
}

struct Model {
    world: World,
    settings: Settings,
    cur: Option<usize>,
    link: Option<Link>,
    asked: Option<AccessMode>,
    mode: Option<AccessMode>,
    left_at: Duration,
    stmts: u64,
    closed: bool,
}

impl Model {
    fn returns(&self) -> bool {
        self.settings.seconds > 0 || self.settings.queries > 0
    }

    fn secondary(&self) -> bool {
        self.cur.is_some_and(|cur| cur != 0)
    }

    fn due(&self) -> bool {
        let Settings { seconds, queries, .. } = self.settings;
        let away = self.world.now() - self.left_at;
        self.returns()
            && self.secondary()
            && ((seconds > 0 && away >= Duration::from_secs(seconds))
                || (queries > 0 && self.stmts >= queries))
    }

    fn restart_counters(&mut self) {
        self.left_at = self.world.now();
        self.stmts = 0;
    }

    fn step(&self, i: usize, allow_source: bool) -> usize {
        let j = (i + 1) % self.settings.hosts;
        if self.settings.hosts > 1
            && j == 0
            && self.cur.is_some()
            && self.returns()
            && !allow_source
            && !self.due()
        {
            return 1;
        }
        j
    }

    /// `None` if it opened.
    fn open(&mut self, host: usize) -> Option<Verdict> {
        let id = HostId::new(u32::try_from(host).unwrap());
        match self.world.connect(id, CONNECT) {
            Outcome::Connected => None,
            Outcome::Failed { verdict, .. } => Some(verdict),
            Outcome::Waited => unreachable!(),
        }
    }

    fn switch_to(&mut self, host: usize) {
        use AccessMode::{ReadOnly, ReadWrite};
        self.mode = Some(if host == 0 {
            self.asked.unwrap_or(ReadWrite)
        } else if self.settings.read_only {
            ReadOnly
        } else {
            self.asked.or(self.mode).unwrap_or(ReadWrite)
        });
        self.cur = Some(host);
        self.link = Some(self.world.link(HostId::new(u32::try_from(host).unwrap())));
    }

    fn acquire(&mut self) -> bool {
        self.link = None;
        if let Some(cur) = self.cur.filter(|_| !self.due()) {
            return self.walk(cur);
        }
        if self.open(0).is_none() {
            self.switch_to(0);
            return true;
        }
        self.restart_counters();
        self.walk(0)
    }

    fn walk(&mut self, from: usize) -> bool {
        let origin = self.cur;
        let first = self.step(from, false);
        let (mut h, mut turns) = (first, 0);
        let mut via_source = origin.is_none() || origin == Some(0);
        loop {
            via_source = via_source || h == 0;
            match self.open(h) {
                None => {
                    self.switch_to(h);
                    if h != 0 && via_source {
                        self.restart_counters();
                    }
                    return true;
                }
                Some(Verdict::Permanent) => return false,
                Some(_) => {}
            }
            let mut k = self.step(h, turns > 0);
            if k == first {
                k = self.step(h, true);
                if k == first {
                    turns += 1;
                    self.world.advance(PAUSE);
                }
            }
            h = k;
            if turns >= self.settings.turns {
                self.closed = true;
                return false;
            }
        }
    }

    fn alive(&self) -> bool {
        self.link.is_some_and(|link| !self.world.broken(link))
    }

    fn return_to_source(&mut self) {
        if self.open(0).is_none() {
            self.switch_to(0);
        } else {
            self.restart_counters();
        }
    }

    /// A statement, or a commit.
    fn execute(&mut self, counts: bool) {
        if self.closed {
            return;
        }
        if self.cur.is_none() && !self.acquire() {
            return;
        }
        if counts && self.secondary() {
            self.stmts += 1;
        }
        if !self.alive() {
            self.acquire();
        } else if self.due() {
            self.return_to_source();
        }
    }

    fn set_read_only(&mut self, on: bool) {
        let mode = if on { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
        self.asked = Some(mode);
        // After a walk that ended early there is no connection: the next use looks for one (ours).
        if self.closed || (self.link.is_none() && !self.acquire()) {
            return;
        }
        let applies = !self.secondary() || !self.settings.read_only;
        if applies && self.mode != Some(mode) {
            if !self.alive() {
                self.acquire();
                return;
            }
            self.mode = Some(mode);
        }
        if self.link.is_some() && self.due() {
            self.return_to_source();
        }
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    (1..=4_usize, 0..=3_u32, 0..=3_u64, 0..=4_u64, any::<bool>()).prop_map(
        |(hosts, turns, seconds, queries, read_only)| Settings {
            hosts,
            turns,
            seconds,
            queries,
            read_only,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let state = prop_oneof![
        4 => Just(HostState::Up),
        4 => Just(HostState::Down),
        1 => Just(HostState::Auth),
        1 => Just(HostState::Inactive),
    ];
    prop_oneof![
        6 => Just(Event::Query),
        5 => (0..4_usize, state).prop_map(|(host, state)| Event::Set(host, state)),
        1 => Just(Event::Commit),
        1 => any::<bool>().prop_map(Event::SetReadOnly),
        2 => (0..2_000_u64).prop_map(Event::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(800) })]

    #[test]
    fn any_sequence_of_events_goes_as_the_reference_says(
        settings in settings(),
        events in prop::collection::vec(event(), 1..40),
    ) {
        let policy = Cycling::builder()
            .retries_all_down(settings.turns)
            .seconds_before_retry_source(Duration::from_secs(settings.seconds))
            .queries_before_retry_source(settings.queries)
            .fail_over_read_only(settings.read_only)
            .deadline(Duration::from_secs(3_600));
        let mut bench = Bench::new(settings.hosts, policy);
        let mut model = Model {
            world: World::new((1..=settings.hosts).map(|number| format!("H{number}"))),
            settings,
            cur: None,
            link: None,
            asked: None,
            mode: None,
            left_at: Duration::ZERO,
            stmts: 0,
            closed: false,
        };
        for (index, event) in events.iter().enumerate() {
            match *event {
                Event::Commit => {
                    let _ = bench.call(Call::Commit);
                    model.execute(false);
                }
                Event::Query => {
                    let _ = bench.query();
                    model.execute(true);
                }
                Event::Set(host, state) => {
                    let id = HostId::new(u32::try_from(host % settings.hosts).unwrap());
                    bench.session.world_mut().set(id, state);
                    model.world.set(id, state);
                }
                Event::SetReadOnly(on) => {
                    let mode = if on { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
                    let _ = bench.call(Call::SetMode(mode));
                    model.set_read_only(on);
                }
                Event::Wait(millis) => {
                    bench.wait(Duration::from_millis(millis));
                    model.world.advance(Duration::from_millis(millis));
                }
            }
            prop_assert_eq!(
                bench.session.world().attempts(),
                model.world.attempts(),
                "event {}: {:?}", index, event
            );
            prop_assert_eq!(bench.session.world().now(), model.world.now());
            prop_assert_eq!(bench.logical().is_closed(), model.closed);
            if bench.host().is_some() {
                prop_assert_eq!(bench.host(), model.cur.map(|cur| cur + 1));
                prop_assert_eq!(bench.logical().mode(), model.mode);
            }
        }
    }
}

#[test]
fn the_policy_of_the_model_is_the_default_one_but_for_its_limits() {
    let rule = Cycling::default().return_rule().unwrap();
    assert_eq!((rule.after, rule.after_statements), (Some(30 * S), Some(50)));
}
