//! TLS between agent and server: a private CA, and a client certificate that the server demands.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use runtab::agent::push::Outcome;
use runtab::agent::spool::parts;
use runtab::agent::transport::Transport;
use runtab::config::agent::Push;
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::harness::{Backend, Engine, at_rest, time};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate")
}

/// A certificate for a name, and its key.
fn certificate(name: &str, issuer: &Issuer) -> (rcgen::Certificate, KeyPair) {
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let key = KeyPair::generate().expect("a key");
    (params.signed_by(&key, issuer).expect("a certificate"), key)
}

/// A terminator of TLS before an engine, that demands a client certificate of the authority; its port.
async fn terminator(target: String, issuer: &Issuer) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).expect("a root");
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let (certificate, key) = certificate("localhost", issuer);
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a configuration");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (acceptor, target) = (acceptor.clone(), target.clone());
            tokio::spawn(async move {
                let mut client = acceptor.accept(client).await.ok()?;
                let mut server = TcpStream::connect(target).await.ok()?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await.ok()
            });
        }
    });
    port
}

fn transport(folder: &Path, ca: &str, client: Option<&str>) -> Transport {
    let settings = Push {
        servers: "https://localhost".to_owned().into(),
        token_file: folder.join("token"),
        ca_file: folder.join(ca),
        client_file: client.map(|name| folder.join(name)).unwrap_or_default(),
        timeout_ms: 20_000,
        ..Push::default()
    };
    Transport::new(&settings).expect("a client")
}

#[tokio::test]
async fn a_private_ca_and_a_client_certificate() {
    let noon = time("2026-11-10T12:00:00Z");
    let engine = Engine::with_customer(Backend::Sqlite, noon).await;
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).expect("a file");
    let (ours, theirs) = (authority(), authority());
    write("token", engine.host_token("h-1"));
    write("ours.pem", ours.pem());
    write("theirs.pem", theirs.pem());
    for (name, issuer) in [("client.pem", &ours), ("stranger.pem", &theirs)] {
        let (certificate, key) = certificate("h-1", issuer);
        write(name, certificate.pem() + &key.serialize_pem());
    }
    let port = terminator(engine.admin.base().trim_start_matches("http://").to_owned(), &ours).await;
    let server = format!("https://localhost:{port}");
    // Of a sandbox that nobody knows: the answer is the engine's own.
    let row = at_rest("acme", "nobody", noon, 1).to_string();
    let body = parts(&[row], noon.0).expect("a part").remove(0).payload;

    let outcome = transport(folder.path(), "ours.pem", Some("client.pem")).send(&server, body.clone()).await;
    assert!(
        matches!(&outcome, Outcome::Answered(answer) if answer.rejected[0].code == "unknown_sandbox"),
        "{outcome:?}"
    );
    for (ca, client) in [("theirs.pem", Some("client.pem")), ("ours.pem", None), ("ours.pem", Some("stranger.pem"))] {
        let outcome = transport(folder.path(), ca, client).send(&server, body.clone()).await;
        assert!(matches!(outcome, Outcome::Later { .. }), "{ca} {client:?}: {outcome:?}");
    }
}
