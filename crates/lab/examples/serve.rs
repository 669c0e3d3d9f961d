//! Serves a described world on loopback: `cargo run -p lab --example serve -- WORLD.json PORT`.

use std::net::SocketAddr;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&words[1])?;
    let description: lab::Description = serde_json::from_str(&text)?;
    let lab =
        lab::Lab::open(description.config(), ambient::Clock::from(lab::LabConfig::first_moment(), 4.0))?;
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let port: u16 = words[2].parse()?;
    let _serving = lab.serve(lab::ServeOptions { proxmox: at(port), factory: at(0) }).await?;
    println!("{}", lab.facts().root_password);
    std::future::pending::<()>().await;
    Ok(())
}
