//! An application that keeps its `bb8` pool and gains failover by one line: the manager.
//!
//! `cargo run -p pool-examples --bin bb8_manager`

use std::error::Error;
use std::time::Duration;

use pool_core::interop::FailoverManager;
use pool_mssql::{MsSql, MsSqlOptions};
use pool_tests::mssql::MirroredPair;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pair = MirroredPair::start().await?;
    let options: MsSqlOptions = pair.ado_string().parse()?;

    // This is the line. The pool and everything that uses it stay as they are.
    let manager = FailoverManager::new(options.pool_builder()?.name("orders"))?;
    // The walk's own view: `bb8` tells a caller that time ran out, and nobody why.
    let walk = manager.pool().clone();
    let pool = bb8::Pool::builder()
        .max_size(8)
        .connection_timeout(Duration::from_secs(15))
        .build(manager)
        .await?;

    println!("before the failover: {}", served_by(&pool).await?);
    pair.failover().await;
    println!("after the failover:  {}", served_by(&pool).await?);
    pair.failover().await;
    println!("and back again:      {}", served_by(&pool).await?);
    println!("{}", walk.status());
    Ok(())
}

async fn served_by(pool: &bb8::Pool<FailoverManager<MsSql>>) -> Result<String, Box<dyn Error>> {
    let mut conn = pool.get().await.map_err(|error| format!("no connection: {error:?}"))?;
    let row = conn.simple_query("SELECT @@SERVERNAME").await?.into_row().await?;
    let name = row.and_then(|row| row.get::<&str, _>(0).map(str::to_owned));
    Ok(name.ok_or("no row")?)
}
