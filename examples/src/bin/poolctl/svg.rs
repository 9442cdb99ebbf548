//! The picture of a mirrored walk: time across, one lane per partner.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::duration::seconds;
use crate::failure::Failure;
use crate::timeline::{Walk, name, outcome};

const WIDTH: i32 = 1_400;
const HEIGHT: i32 = 345;
const LEFT: i32 = 110;
const RIGHT: i32 = 40;
const LANES: [i32; 2] = [95, 215];
const BAR: i32 = 46;
const AXIS: i32 = 290;

const INK: RGBColor = RGBColor(40, 40, 40);
const PALE: RGBColor = RGBColor(228, 228, 228);

/// Draws the walk into an SVG file.
pub(crate) fn draw(walk: &Walk, path: &Path) -> Result<(), Failure> {
    let picture = Picture { walk, scale: Scale::new(walk) };
    let mut text = String::new();
    picture
        .paint(&mut text)
        .map_err(|error| Failure::Input(format!("cannot draw the walk: {error}")))?;
    std::fs::write(path, text)
        .map_err(|error| Failure::Input(format!("--svg {}: {error}", path.display())))
}

/// Time to pixels.
struct Scale {
    end: Duration,
}

impl Scale {
    /// Reaches to the end of the walk and, where it is near, of the login timeout.
    fn new(walk: &Walk) -> Self {
        let end = walk.end.max(walk.login_timeout.min(walk.end * 2));
        Self { end: end.max(Duration::from_millis(1)) }
    }

    fn x(&self, time: Duration) -> i32 {
        let width = u128::from((WIDTH - LEFT - RIGHT).unsigned_abs());
        let offset = time.as_nanos() * width / self.end.as_nanos();
        LEFT + i32::try_from(offset).unwrap_or(WIDTH)
    }

    /// The distance of two marks: a round number that gives 20 marks at most.
    fn tick(&self) -> Duration {
        let steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000];
        let fits = |millis: &u64| Duration::from_millis(*millis) * 20 >= self.end;
        Duration::from_millis(steps.into_iter().find(fits).unwrap_or(60_000))
            .max(self.end / 20 / 60_000 * 60_000)
    }
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Painted<'a> = Result<(), Box<dyn std::error::Error + 'a>>;

struct Picture<'w> {
    walk: &'w Walk,
    scale: Scale,
}

impl Picture<'_> {
    fn paint(&self, text: &mut String) -> Result<(), String> {
        let size = (WIDTH.unsigned_abs(), HEIGHT.unsigned_abs());
        let canvas = SVGBackend::with_string(text, size).into_drawing_area();
        self.paint_all(&canvas).map_err(|error| error.to_string())?;
        canvas.present().map_err(|error| error.to_string())
    }

    fn paint_all<'a>(&self, canvas: &Canvas<'a>) -> Painted<'a> {
        canvas.fill(&WHITE)?;
        self.paint_frame(canvas)?;
        self.paint_delays(canvas)?;
        self.paint_attempts(canvas)?;
        self.paint_legend(canvas)
    }

    /// Title, axis, lanes and the end of the login timeout.
    fn paint_frame<'a>(&self, canvas: &Canvas<'a>) -> Painted<'a> {
        let timeout = match self.walk.login_timeout {
            Duration::ZERO => "unlimited login timeout".to_owned(),
            limit => format!("login timeout {} s", seconds(limit)),
        };
        let to = self.walk.host.map(|host| format!(" to {}", name(host))).unwrap_or_default();
        let title = format!(
            "{timeout}: {}{to} at {} s after {} attempts",
            self.walk.result,
            seconds(self.walk.end),
            self.walk.attempts.len(),
        );
        write(canvas, &title, (LEFT, 18), 18, HPos::Left)?;
        for (lane, top) in ["initial", "partner"].into_iter().zip(LANES) {
            write(canvas, lane, (LEFT - 12, top + BAR / 2), 15, HPos::Right)?;
            line(canvas, [(LEFT, top + BAR), (WIDTH - RIGHT, top + BAR)], PALE)?;
        }
        line(canvas, [(LEFT, AXIS), (WIDTH - RIGHT, AXIS)], INK)?;
        let tick = self.scale.tick();
        let mut at = Duration::ZERO;
        while at <= self.scale.end {
            let x = self.scale.x(at);
            line(canvas, [(x, AXIS), (x, AXIS + 5)], INK)?;
            write(canvas, &format!("{} s", seconds(at)), (x, AXIS + 15), 12, HPos::Center)?;
            at += tick;
        }
        let limit = self.walk.login_timeout;
        if !limit.is_zero() && limit <= self.scale.end {
            let x = self.scale.x(limit);
            line(canvas, [(x, LANES[0] - 30), (x, AXIS)], RED)?;
        }
        Ok(())
    }

    /// Delays are gaps between the bars, shaded and labelled.
    fn paint_delays<'a>(&self, canvas: &Canvas<'a>) -> Painted<'a> {
        let mut labels = Labels::default();
        for pair in self.walk.attempts.windows(2) {
            let (from, to) = (pair[0].end, pair[1].start);
            if from >= to {
                continue;
            }
            let (left, right) = (self.scale.x(from), self.scale.x(to));
            canvas.draw(&Rectangle::new(
                [(left, LANES[0] - 4), (right, LANES[1] + BAR + 4)],
                PALE.filled(),
            ))?;
            let text = format!("{} ms", (to - from).as_millis());
            labels.put(canvas, &text, left.midpoint(right), LANES[0] + BAR + 38, right - left)?;
        }
        Ok(())
    }

    /// One bar per attempt, its budget above it.
    fn paint_attempts<'a>(&self, canvas: &Canvas<'a>) -> Painted<'a> {
        let mut labels = [Labels::default(), Labels::default()];
        for attempt in &self.walk.attempts {
            let lane = attempt.host.index().min(1);
            let top = LANES[lane];
            let left = self.scale.x(attempt.start);
            // An answer that takes no time still shows.
            let right = self.scale.x(attempt.end).max(left + 3);
            let bar = [(left, top), (right, top + BAR)];
            canvas.draw(&Rectangle::new(bar, colour(outcome(attempt)).filled()))?;
            canvas.draw(&Rectangle::new(bar, INK))?;
            let budget = format!("{} s", seconds(attempt.budget));
            labels[lane].put(canvas, &budget, left.midpoint(right), top - 4, right - left)?;
        }
        Ok(())
    }

    fn paint_legend<'a>(&self, canvas: &Canvas<'a>) -> Painted<'a> {
        let mut x = LEFT;
        let y = HEIGHT - 18;
        for word in ["connected", "timed-out", "refused", "inactive", "auth-failed"] {
            if self.walk.attempts.iter().all(|attempt| outcome(attempt) != word) {
                continue;
            }
            canvas.draw(&Rectangle::new([(x, y - 6), (x + 14, y + 6)], colour(word).filled()))?;
            write(canvas, word, (x + 20, y), 13, HPos::Left)?;
            x += 120;
        }
        canvas.draw(&Rectangle::new([(x, y - 6), (x + 14, y + 6)], PALE.filled()))?;
        write(canvas, "delay", (x + 20, y), 13, HPos::Left)?;
        let note = "above each bar: its budget";
        write(canvas, note, (WIDTH - RIGHT, y), 13, HPos::Right)
    }
}

/// Labels of one lane, none on top of another: level where there is room, else upright.
#[derive(Default)]
struct Labels {
    free_from: i32,
}

impl Labels {
    /// Writes `text` so that it ends above `y`, around `x`, over something that is `room` wide.
    fn put<'a>(
        &mut self,
        canvas: &Canvas<'a>,
        text: &str,
        x: i32,
        y: i32,
        room: i32,
    ) -> Painted<'a> {
        const LINE: i32 = 8;
        const LEVEL: i32 = 50;
        if x < self.free_from {
            return Ok(());
        }
        if room >= LEVEL {
            self.free_from = x + LEVEL / 2;
            return write(canvas, text, (x, y - 6), 12, HPos::Center);
        }
        self.free_from = x + LINE;
        let style = ("sans-serif", LINE + 2)
            .into_font()
            .transform(FontTransform::Rotate270)
            .color(&INK)
            .pos(Pos::new(HPos::Left, VPos::Center));
        canvas.draw(&Text::new(text.to_owned(), (x, y), style))?;
        Ok(())
    }
}

fn colour(outcome: &str) -> RGBColor {
    match outcome {
        "auth-failed" => RGBColor(150, 70, 160),
        "connected" => RGBColor(70, 160, 90),
        "inactive" => RGBColor(225, 165, 60),
        "refused" => RGBColor(205, 85, 75),
        _ => RGBColor(110, 150, 205),
    }
}

fn line<'a>(canvas: &Canvas<'a>, points: [(i32, i32); 2], colour: RGBColor) -> Painted<'a> {
    canvas.draw(&PathElement::new(points.to_vec(), colour))?;
    Ok(())
}

fn write<'a>(
    canvas: &Canvas<'a>,
    text: &(impl Display + ?Sized),
    at: (i32, i32),
    size: i32,
    side: HPos,
) -> Painted<'a> {
    let style = ("sans-serif", size).into_font().color(&INK).pos(Pos::new(side, VPos::Center));
    canvas.draw(&Text::new(text.to_string(), at, style))?;
    Ok(())
}
