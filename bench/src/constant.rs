//! The same bytes for each request, by hyper alone: the least that an HTTP service on hyper takes.

use std::convert::Infallible;
use std::path::PathBuf;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

#[derive(Debug, clap::Args)]
pub(crate) struct Constant {
    /// Where to listen.
    #[arg(long)]
    http: String,
    /// The body of each response.
    #[arg(long)]
    body: PathBuf,
    /// A header of each response, as name:value.
    #[arg(long, value_parser = parse_header)]
    header: Vec<(HeaderName, HeaderValue)>,
}

fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("a header is name:value")?;
    let name = name.parse().map_err(|_| "not the name of a header")?;
    Ok((name, value.parse().map_err(|_| "not a value of a header")?))
}

impl Constant {
    pub(crate) async fn run(self) -> anyhow::Result<Value> {
        let body = Bytes::from(std::fs::read(self.body)?);
        let headers = HeaderMap::from_iter(self.header);
        let listener = TcpListener::bind(self.http).await?;
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let (headers, body) = (headers.clone(), body.clone());
            tokio::spawn(async move {
                let answer = service_fn(|_: Request<Incoming>| {
                    let mut response = Response::new(Full::new(body.clone()));
                    *response.headers_mut() = headers.clone();
                    async { Ok::<_, Infallible>(response) }
                });
                // A client that leaves is no error of this server.
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), answer)
                    .await;
            });
        }
    }
}
