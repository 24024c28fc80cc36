//! [`Cable`]: a connection to a service that can be cut without either side being informed.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) struct Cable {
    pub(crate) address: SocketAddr,
    is_cut: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Cable {
    pub(crate) async fn to(service: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, cut) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, service, cut.clone()));
            }
        });
        Self {
            address,
            is_cut,
            accepting,
        }
    }

    /// Nothing arrives any more, in either direction. Connections stay open.
    pub(crate) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// New connections work again. Those from before are lost.
    pub(crate) fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn relay(mut client: TcpStream, service: SocketAddr, cut: watch::Receiver<bool>) {
    // While the service is down, the client is disconnected.
    let Ok(mut server) = TcpStream::connect(service).await else {
        return;
    };
    tokio::select! {
        () = until(cut.clone(), true) => {}
        _ = copy_bidirectional(&mut client, &mut server) => return,
    }
    until(cut, false).await;
}

async fn until(mut cut: watch::Receiver<bool>, wanted: bool) {
    let _ = cut.wait_for(|is_cut| *is_cut == wanted).await;
}
