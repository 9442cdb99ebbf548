//! `mysql+srv://`: hosts from a name server that the test runs.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::SRV;
use hickory_proto::rr::{Name, RData, Record};
use mysql_async::prelude::Queryable;
use pool_mysql::MySqlOptions;
use pool_mysql::srv::{SrvError, SrvService};
use pool_tests::mysql::Cluster;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);
const SERVICE: &str = "_mysql._tcp.shop.test";

/// What the name server says about [`SERVICE`].
#[derive(Clone)]
enum Says {
    Fail(ResponseCode),
    Nothing,
    /// Priority, weight, port, target.
    Records(Vec<(u16, u16, u16, &'static str)>),
}

struct NameServer {
    address: SocketAddr,
    says: Arc<Mutex<Says>>,
    asked: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl NameServer {
    async fn start(says: Says) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let says = Arc::new(Mutex::new(says));
        let mut task = JoinSet::new();
        let asked = Arc::new(AtomicUsize::new(0));
        task.spawn(serve(socket, says.clone(), asked.clone()));
        Self { address, says, asked, _task: task }
    }

    /// How many questions were answered.
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn service(&self) -> SrvService {
        SrvService::new(SERVICE, Some(self.address)).unwrap()
    }
}

async fn serve(socket: UdpSocket, says: Arc<Mutex<Says>>, count: Arc<AtomicUsize>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
        let request = Message::from_vec(&buffer[..length]).unwrap();
        let mut answer = Message::response(request.metadata.id, request.metadata.op_code);
        answer.add_queries(request.queries.clone());
        let query = request.queries[0].name();
        let asked = query.to_utf8().eq_ignore_ascii_case(&format!("{SERVICE}."));
        match says.lock().unwrap().clone() {
            Says::Nothing => continue,
            Says::Fail(code) => answer.metadata.response_code = code,
            Says::Records(_) if !asked => answer.metadata.response_code = ResponseCode::NXDomain,
            Says::Records(records) => {
                for (priority, weight, port, target) in records {
                    let target = Name::from_str(target).unwrap();
                    let data = RData::SRV(SRV::new(priority, weight, port, target));
                    answer.add_answer(Record::from_rdata(query.clone(), 300, data));
                }
            }
        }
        socket.send_to(&answer.to_vec().unwrap(), client).await.unwrap();
        count.fetch_add(1, Ordering::SeqCst);
    }
}

async fn names(service: &SrvService) -> Vec<String> {
    let hosts = service.resolve().await.unwrap();
    hosts.iter().map(|host| host.name().to_owned()).collect()
}

#[tokio::test]
async fn hosts_come_in_the_order_of_their_priority() {
    let records =
        vec![(30, 0, 3308, "c.test."), (10, 5, 3306, "a.test."), (20, 5, 3307, "b.test.")];
    let server = NameServer::start(Says::Records(records)).await;
    let expected = ["a.test:3306", "b.test:3307", "c.test:3308"];
    assert_eq!(names(&server.service()).await, expected);
}

#[tokio::test]
async fn a_service_is_asked_anew_each_time() {
    let server = NameServer::start(Says::Records(vec![(1, 0, 3306, "a.test.")])).await;
    let service = server.service();
    assert_eq!(names(&service).await, ["a.test:3306"]);
    // The first answer may be kept for five minutes; a host that failed cannot wait so long.
    server.say(Says::Records(vec![(1, 0, 3306, "b.test.")]));
    assert_eq!(names(&service).await, ["b.test:3306"]);
}

#[tokio::test]
async fn a_target_that_is_listed_twice_is_one_host() {
    let records = vec![(1, 0, 3306, "a.test."), (2, 0, 3306, "a.test."), (2, 0, 3307, "a.test.")];
    let server = NameServer::start(Says::Records(records)).await;
    assert_eq!(names(&server.service()).await, ["a.test:3306", "a.test:3307"]);
}

#[tokio::test]
async fn a_service_without_hosts_is_an_error_that_says_why() {
    let server = NameServer::start(Says::Records(vec![(0, 0, 0, ".")])).await;
    let service = server.service();
    let name = || SERVICE.to_owned();
    assert_eq!(service.resolve().await, Err(SrvError::NotOffered { service: name() }));
    server.say(Says::Records(Vec::new()));
    assert_eq!(service.resolve().await, Err(SrvError::Empty { service: name() }));
    server.say(Says::Fail(ResponseCode::NXDomain));
    assert_eq!(service.resolve().await, Err(SrvError::Empty { service: name() }));
    server.say(Says::Fail(ResponseCode::ServFail));
    let error = service.resolve().await.unwrap_err();
    assert!(matches!(error, SrvError::Lookup { .. }), "{error}");
}

#[tokio::test]
async fn a_silent_name_server_does_not_hold_anybody_up() {
    let server = NameServer::start(Says::Nothing).await;
    let service = server.service().with_timeout(Duration::from_millis(200));
    let answer = tokio::time::timeout(Duration::from_secs(10), service.resolve()).await.unwrap();
    assert!(matches!(answer, Err(SrvError::Lookup { .. })));
}

#[tokio::test]
async fn a_url_names_the_service_and_its_name_server() {
    let server = NameServer::start(Says::Records(vec![(1, 0, 3306, "a.test.")])).await;
    let url = format!("mysql+srv://u:p@{SERVICE}/db?nameServer={}", server.address);
    let options = MySqlOptions::from_url(&url).unwrap();
    let service = options.srv_service().unwrap().unwrap();
    assert_eq!(service.service(), SERVICE);
    assert_eq!(names(&service).await, ["a.test:3306"]);
}

#[tokio::test]
async fn a_pool_follows_what_the_name_server_lists() {
    let cluster = Cluster::start(3).await.unwrap();
    let ports: Vec<u16> = cluster.hosts().map(|host| host.port()).collect();
    let listed = |hosts: &[usize]| {
        let record = |host: &usize| (*host as u16, 0, ports[*host], "localhost.");
        Says::Records(hosts.iter().map(record).collect())
    };
    let server = NameServer::start(listed(&[0, 1])).await;
    let options = MySqlOptions::new()
        .service(SERVICE)
        .name_server(server.address)
        .srv_refresh_interval(Duration::from_secs(600))
        .connect_timeout(Duration::from_secs(2))
        .probe_interval(Duration::from_millis(50))
        .user(cluster.user())
        .password(cluster.password())
        .database("test");
    let pool = options.open().await.unwrap();
    let members = || -> Vec<u16> {
        let port = |name: &str| name.rsplit_once(':').unwrap().1.parse().unwrap();
        pool.status().hosts.iter().map(|host| port(&host.name)).collect()
    };
    assert_eq!(members(), ports[..2]);
    let mut lease = pool.get().await.unwrap();
    assert_eq!(lease.host().port(), ports[0]);

    // Long before the interval: a host that fails is reason enough to ask again.
    server.say(listed(&[0, 2]));
    cluster.host(1).stop().await;
    let followed = async {
        while members() != [ports[0], ports[2]] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, followed).await.expect("the pool did not follow");
    // No lease was disturbed.
    lease.query_drop("SELECT 1").await.unwrap();

    // An answer without hosts takes none away.
    server.say(Says::Records(Vec::new()));
    cluster.host(2).stop().await;
    let before = server.asked();
    let asked = async {
        while server.asked() == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, asked).await.expect("nobody asked again");
    assert_eq!(members(), [ports[0], ports[2]]);
}
