//! An application that keeps its `deadpool` pool and gains failover by one line: the manager.
//!
//! `cargo run -p pool-examples --bin deadpool_manager`

use std::error::Error;

use pool_core::interop::FailoverManager;
use pool_mysql::mysql_async::prelude::Queryable;
use pool_mysql::{MySql, MySqlOptions};
use pool_tests::mysql::Cluster;

type Pool = deadpool::managed::Pool<FailoverManager<MySql>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = Cluster::start(2).await?;
    cluster.execute("CREATE TABLE orders (id INT)").await?;
    let options = MySqlOptions::from_url(&cluster.url("test"))?.fail_over_read_only(false);

    // This is the line. The pool and everything that uses it stay as they are.
    let manager = FailoverManager::new(options.pool_builder()?.name("orders"))?;
    let pool = Pool::builder(manager).max_size(8).build()?;

    println!("before the failover: {}", order(&pool).await?);
    cluster.host(0).stop().await;
    cluster.promote(1).await?;
    // A use that the failover cuts off fails, and is the application's to repeat. The next one is served.
    let after = match order(&pool).await {
        Ok(name) => name,
        Err(error) => {
            println!("cut off: {error}");
            order(&pool).await?
        }
    };
    println!("after the failover:  {after}");
    // What `deadpool` does not do by itself, and an application may do at an interval: close the idle
    // connections to a host that failed. Each would be refused without a round trip anyway.
    pool.retain(|conn, _| !conn.is_void());
    println!("{}", pool.manager().pool().status());
    Ok(())
}

/// Writes an order; answers which server took it.
async fn order(pool: &Pool) -> Result<String, Box<dyn Error>> {
    let mut conn = pool.get().await?;
    conn.query_drop("INSERT INTO orders VALUES (1)").await?;
    let name: Option<String> = conn.query_first("SELECT @@hostname").await?;
    Ok(name.ok_or("no row")?)
}
