//! TLS connections to webhooks.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::InvalidSetting;

/// Opens TLS connections whose certificates are verified.
#[derive(Clone)]
pub(crate) struct TlsClient(TlsConnector);

impl TlsClient {
    /// Accepts the CA certificates of a PEM file, or those of the system.
    pub(crate) fn new(ca: Option<&Path>) -> Result<Self, InvalidSetting> {
        let mut roots = RootCertStore::empty();
        match ca {
            Some(path) => add_file(&mut roots, path)?,
            None => {
                let found = rustls_native_certs::load_native_certs().certs;
                roots.add_parsable_certificates(found);
            }
        }
        if roots.is_empty() {
            let what = "this system has no CA certificates; name a PEM file with alerts.ca";
            return Err(InvalidSetting(what.to_owned()));
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| InvalidSetting(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        self.0.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))
    }
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), InvalidSetting> {
    let failed = |why: String| InvalidSetting(format!("{}: {why}", path.display()));
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() { Err(failed("contains no certificate".into())) } else { Ok(()) }
}
