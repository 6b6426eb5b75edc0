//! TLS of the listeners, from the sections `[fspiop]` and `[admin]`.

use std::path::PathBuf;

use tls::{AuthorityFiles, ClientCertificates, ClientFiles, MinimumVersion, ServerFiles};

use super::settings::{Admin, Alerts, Config, Enrolment, Fspiop, Traces};
use super::values::{CertificateName, TlsVersion};

/// The settings of a listener's TLS.
struct ListenerTls<'a> {
    section: &'static str,
    certificate: Option<&'a PathBuf>,
    key: Option<&'a PathBuf>,
    client_ca: Option<&'a PathBuf>,
    crl: Option<&'a PathBuf>,
    ocsp: Option<&'a PathBuf>,
    version_min: TlsVersion,
    client_certificates: ClientCertificates,
    protocols: &'static [&'static [u8]],
}

impl Config {
    /// Files of the listener for participants; `None` for plain text.
    pub(crate) fn fspiop_tls(&self) -> Option<ServerFiles> {
        self.fspiop.tls().files()
    }

    /// Files of the listener for operators; `None` for plain text.
    pub(crate) fn admin_tls(&self) -> Option<ServerFiles> {
        self.admin.tls().files()
    }

    /// Files of calls to participants.
    pub(crate) fn calls_tls(&self) -> ClientFiles {
        let endpoints = &self.endpoints;
        let (certificate, key) = (&endpoints.tls_certificate_file, &endpoints.tls_key_file);
        ClientFiles {
            section: "endpoints",
            certificate: certificate.clone().zip(key.clone()),
            ca: endpoints.tls_ca_file.clone(),
            ca_directory: endpoints.tls_ca_directory.clone(),
            crl: endpoints.tls_crl_file.clone(),
            minimum: endpoints.tls_version_min.minimum(),
            protocols: match endpoints.http2 {
                true => &[b"h2", b"http/1.1"],
                false => &[],
            },
        }
    }

    /// Files of webhooks with `https://`.
    pub(crate) fn alerts_tls(&self) -> Option<ClientFiles> {
        let Alerts { webhook_url, ca, tls_certificate_file, tls_key_file, .. } = &self.alerts;
        webhook_url.as_ref().filter(|url| url.starts_with("https://"))?;
        Some(ClientFiles {
            section: "alerts",
            certificate: tls_certificate_file.clone().zip(tls_key_file.clone()),
            ca: ca.clone(),
            ca_directory: None,
            crl: None,
            minimum: MinimumVersion::Tls12,
            protocols: &[],
        })
    }

    /// Files of the export of traces.
    pub(crate) fn traces_tls(&self) -> ClientFiles {
        let Traces { tls_ca_file, tls_certificate_file, tls_key_file, .. } = &self.traces;
        ClientFiles {
            section: "traces",
            certificate: tls_certificate_file.clone().zip(tls_key_file.clone()),
            ca: tls_ca_file.clone(),
            ca_directory: None,
            crl: None,
            minimum: MinimumVersion::Tls12,
            protocols: &[],
        }
    }

    /// The contradiction between settings of TLS, if there is one.
    pub(super) fn tls_fault(&self) -> Option<String> {
        let listeners = [self.fspiop.tls(), self.admin.tls()];
        let fault = listeners.iter().find_map(ListenerTls::fault);
        let fault = fault.or_else(|| self.calls_fault()).or_else(|| self.callers_fault());
        fault.or_else(|| self.enrolment_fault())
    }

    /// Files of the authority that signs requests of participants, if the hub has one.
    pub(crate) fn participant_authority(&self) -> Option<AuthorityFiles> {
        let Enrolment { ca_certificate_file, ca_key_file, .. } = &self.enrolment;
        let (certificate, key) = ca_certificate_file.clone().zip(ca_key_file.clone())?;
        Some(AuthorityFiles { section: "enrolment", certificate, key })
    }

    fn enrolment_fault(&self) -> Option<String> {
        let Enrolment { ca_certificate_file, ca_key_file, .. } = &self.enrolment;
        let needs = match (ca_certificate_file, ca_key_file) {
            (Some(_), None) => "ca_certificate_file needs enrolment.ca_key_file",
            (None, Some(_)) => "ca_key_file needs enrolment.ca_certificate_file",
            (Some(_), Some(_)) if !self.fspiop.certificate_names.contains(&CertificateName::Cn) => {
                "ca_certificate_file needs \"cn\" in fspiop.certificate_names, the only name in \
                 the certificates that it signs"
            }
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(format!("enrolment.{needs}"))
    }

    fn calls_fault(&self) -> Option<String> {
        let (endpoints, alerts, traces) = (&self.endpoints, &self.alerts, &self.traces);
        let pairs = [
            ("endpoints", &endpoints.tls_certificate_file, &endpoints.tls_key_file),
            ("alerts", &alerts.tls_certificate_file, &alerts.tls_key_file),
            ("traces", &traces.tls_certificate_file, &traces.tls_key_file),
        ];
        pairs.into_iter().find_map(|(section, certificate, key)| {
            let (has, needs) = match (certificate, key) {
                (Some(_), None) => ("certificate", "key"),
                (None, Some(_)) => ("key", "certificate"),
                (Some(_), Some(_)) | (None, None) => return None,
            };
            Some(format!("{section}.tls_{has}_file needs {section}.tls_{needs}_file"))
        })
    }
}

impl Fspiop {
    fn tls(&self) -> ListenerTls<'_> {
        ListenerTls {
            section: "fspiop",
            certificate: self.tls_certificate_file.as_ref(),
            key: self.tls_key_file.as_ref(),
            client_ca: self.tls_client_ca_file.as_ref(),
            crl: self.tls_crl_file.as_ref(),
            ocsp: self.tls_ocsp_file.as_ref(),
            version_min: self.tls_version_min,
            client_certificates: ClientCertificates::Required,
            protocols: &[b"h2", b"http/1.1"],
        }
    }
}

impl Admin {
    fn tls(&self) -> ListenerTls<'_> {
        ListenerTls {
            section: "admin",
            certificate: self.tls_certificate_file.as_ref(),
            key: self.tls_key_file.as_ref(),
            client_ca: self.tls_client_ca_file.as_ref(),
            crl: self.tls_crl_file.as_ref(),
            ocsp: self.tls_ocsp_file.as_ref(),
            version_min: self.tls_version_min,
            client_certificates: ClientCertificates::Required,
            protocols: &[b"http/1.1"],
        }
    }
}

impl TlsVersion {
    fn minimum(self) -> MinimumVersion {
        match self {
            Self::Tls12 => MinimumVersion::Tls12,
            Self::Tls13 => MinimumVersion::Tls13,
        }
    }
}

impl ListenerTls<'_> {
    fn fault(&self) -> Option<String> {
        let Self { section, certificate, key, client_ca, crl, ocsp, .. } = self;
        let needs = [
            (certificate.is_some(), "certificate", key.is_some(), "key"),
            (key.is_some(), "key", certificate.is_some(), "certificate"),
            (client_ca.is_some(), "client_ca", certificate.is_some(), "certificate"),
            (ocsp.is_some(), "ocsp", certificate.is_some(), "certificate"),
            (crl.is_some(), "crl", client_ca.is_some(), "client_ca"),
        ];
        let (_, set, _, missing) = needs.into_iter().find(|(set, _, has, _)| *set && !has)?;
        Some(format!("{section}.tls_{set}_file needs {section}.tls_{missing}_file"))
    }

    fn files(&self) -> Option<ServerFiles> {
        Some(ServerFiles {
            section: self.section,
            certificate: self.certificate?.clone(),
            key: self.key?.clone(),
            client_ca: self.client_ca.cloned(),
            client_certificates: self.client_certificates,
            crl: self.crl.cloned(),
            ocsp: self.ocsp.cloned(),
            minimum: self.version_min.minimum(),
            protocols: self.protocols,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_need_another_one_name_it() {
        let check = |settings: &str, expected: Option<&str>| {
            let config: Config = toml::from_str(settings).expect("known names");
            let fault = config.tls_fault();
            assert_eq!(fault.as_deref(), expected, "{settings}");
        };
        check("", None);
        let pair = "tls_certificate_file = \"a\"\ntls_key_file = \"b\"\n";
        for section in ["fspiop", "admin"] {
            let check = |settings: &str, expected: Option<&str>| {
                let expected = expected.map(|text| text.replace("S.", &format!("{section}.")));
                check(&format!("[{section}]\n{settings}"), expected.as_deref());
            };
            check(pair, None);
            check(&pair[..pair.len() / 2 + 3], Some("S.tls_certificate_file needs S.tls_key_file"));
            let client_ca = format!("{pair}tls_client_ca_file = \"c\"\n");
            check(&client_ca, None);
            check(
                &client_ca[pair.len()..],
                Some("S.tls_client_ca_file needs S.tls_certificate_file"),
            );
            let crl = Some("S.tls_crl_file needs S.tls_client_ca_file");
            check(&format!("{pair}tls_crl_file = \"d\""), crl);
            check(&format!("{client_ca}tls_crl_file = \"d\""), None);
        }
        let (certificate, key) = ("ca_certificate_file = \"a\"\n", "ca_key_file = \"b\"\n");
        let needs = Some("enrolment.ca_certificate_file needs enrolment.ca_key_file");
        check(&format!("[enrolment]\n{certificate}"), needs);
        let needs = Some("enrolment.ca_key_file needs enrolment.ca_certificate_file");
        check(&format!("[enrolment]\n{key}"), needs);
        check(&format!("[enrolment]\n{certificate}{key}"), None);
        let needs = "enrolment.ca_certificate_file needs \"cn\" in fspiop.certificate_names, the \
                     only name in the certificates that it signs";
        let other = "[fspiop]\ncertificate_names = [\"san_dns\"]\n";
        check(&format!("{other}[enrolment]\n{certificate}{key}"), Some(needs));
        let needs = "fspiop.callers = \"certificate\" needs fspiop.tls_client_ca_file, the \
                     authorities of the participants' certificates";
        check(&format!("[fspiop]\n{pair}callers = \"certificate\""), Some(needs));
    }
}
