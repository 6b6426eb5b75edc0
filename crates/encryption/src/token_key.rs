//! Master keys in tokens, by PKCS#11. The key never leaves its token: the token encrypts and
//! decrypts data keys, with AES-GCM.
//!
//! A module is loaded and initialised once in a process. Each use opens a session, so that a token
//! that was away can be used again. Modules have no time limit.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Function, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::AuthPin;

use crate::aead::{KEY_BYTES, NONCE_BYTES, TAG_BYTES};
use crate::master_key::{MasterKey, MasterKeyError, random};
use crate::pkcs11_uri::KeyUri;

/// Modules that this process has loaded. They stay loaded.
static MODULES: Mutex<Option<HashMap<PathBuf, Pkcs11>>> = Mutex::new(None);

/// An AES key in a token.
pub struct TokenKey {
    uri: KeyUri,
    name: String,
    module: Pkcs11,
    /// A PIN that the token refused. It is not sent again, because tokens lock after a few.
    refused_pin: Mutex<Option<String>>,
}

impl TokenKey {
    /// Finds the key of a URI: the text after `pkcs11:`.
    ///
    /// # Errors
    /// [`MasterKeyError::Source`].
    pub fn open(uri: &str) -> Result<Self, MasterKeyError> {
        let uri = KeyUri::parse(uri)?;
        let module = load(&uri.module)?;
        let mut key = Self { uri, name: String::new(), module, refused_pin: Mutex::default() };
        key.name = key.in_session(|session, found| {
            let read = session.get_attributes(found, &[AttributeType::Label, AttributeType::Id])?;
            let (mut label, mut id) = (Vec::new(), Vec::new());
            for attribute in read {
                match attribute {
                    Attribute::Label(bytes) => label = bytes,
                    Attribute::Id(bytes) => id = bytes,
                    _ => {}
                }
            }
            Ok(KeyUri::name(&label, &id))
        })?;
        Ok(key)
    }

    /// Opens a session, finds the key and uses it.
    fn in_session<T>(
        &self,
        work: impl FnOnce(&Session, ObjectHandle) -> Result<T, Error>,
    ) -> Result<T, MasterKeyError> {
        let failed = |error: &Error| self.failure(&describe(error));
        let slot = self.slot()?;
        let session = self.module.open_ro_session(slot).map_err(|error| failed(&error))?;
        self.log_in(&session)?;
        let key = self.find(&session)?;
        work(&session, key).map_err(|error| match error {
            Error::Pkcs11(refusal, Function::Decrypt) if is_refusal(refusal) => {
                MasterKeyError::Refused
            }
            error => failed(&error),
        })
    }

    fn slot(&self) -> Result<Slot, MasterKeyError> {
        let failed = |error: Error| self.failure(&describe(&error));
        let mut found = Vec::new();
        for slot in self.module.get_slots_with_token().map_err(failed)? {
            // A token that was just removed does not fit.
            let info = self.module.get_token_info(slot).ok();
            found.extend(info.filter(|info| self.fits(info)).map(|_| slot));
        }
        match found[..] {
            [slot] => Ok(slot),
            [] => Err(self.failure("no token fits the URI; check token and serial")),
            _ => Err(self.failure("more than one token fits the URI; add its serial")),
        }
    }

    fn fits(&self, info: &TokenInfo) -> bool {
        let wanted = [
            (&self.uri.token, info.label()),
            (&self.uri.serial, info.serial_number()),
            (&self.uri.manufacturer, info.manufacturer_id()),
            (&self.uri.model, info.model()),
        ];
        wanted.iter().all(|(wanted, found)| {
            wanted.as_ref().is_none_or(|wanted| wanted.trim_end() == found.trim_end())
        })
    }

    fn log_in(&self, session: &Session) -> Result<(), MasterKeyError> {
        let Some(pin) = self.uri.pin()? else { return Ok(()) };
        let mut refused = lock(&self.refused_pin);
        if refused.as_ref() == Some(&pin) {
            return Err(self.failure(
                "the token refused this PIN; it is not tried again, because tokens lock",
            ));
        }
        match session.login(UserType::User, Some(&AuthPin::new(pin.clone().into()))) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
            Err(error) => {
                if matches!(error, Error::Pkcs11(RvError::PinIncorrect, _)) {
                    *refused = Some(pin);
                }
                Err(self.failure(&describe(&error)))
            }
        }
    }

    fn find(&self, session: &Session) -> Result<ObjectHandle, MasterKeyError> {
        let mut wanted =
            vec![Attribute::Class(ObjectClass::SECRET_KEY), Attribute::KeyType(KeyType::AES)];
        let object = self.uri.object.as_ref();
        wanted.extend(object.map(|label| Attribute::Label(label.as_bytes().to_vec())));
        wanted.extend(self.uri.id.clone().map(Attribute::Id));
        let found = session.find_objects(&wanted);
        match found.map_err(|error| self.failure(&describe(&error)))?[..] {
            [key] => Ok(key),
            [] => Err(self.failure(
                "the token has no AES key that fits the URI, or shows it only with a PIN",
            )),
            _ => Err(self.failure("more than one AES key fits the URI; add its id")),
        }
    }

    fn failure(&self, what: &str) -> MasterKeyError {
        failed(&self.uri.module, what)
    }
}

impl MasterKey for TokenKey {
    fn name(&self) -> &str {
        &self.name
    }

    fn wrap(&self, context: &[u8], key: &[u8; KEY_BYTES]) -> Result<Vec<u8>, MasterKeyError> {
        let mut nonce: [u8; NONCE_BYTES] = random()?;
        let wrapped = nonce.to_vec();
        let sealed = self.in_session(|session, master| {
            session.encrypt(&Mechanism::AesGcm(gcm(&mut nonce, context)?), master, key)
        })?;
        Ok([wrapped, sealed].concat())
    }

    fn unwrap(&self, context: &[u8], wrapped: &[u8]) -> Result<[u8; KEY_BYTES], MasterKeyError> {
        let (nonce, sealed) = wrapped.split_first_chunk().ok_or(MasterKeyError::Refused)?;
        let mut nonce: [u8; NONCE_BYTES] = *nonce;
        let key = self.in_session(|session, master| {
            session.decrypt(&Mechanism::AesGcm(gcm(&mut nonce, context)?), master, sealed)
        })?;
        key.try_into().map_err(|_| MasterKeyError::Refused)
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("name", &self.name).finish_non_exhaustive()
    }
}

fn load(path: &Path) -> Result<Pkcs11, MasterKeyError> {
    let mut modules = lock(&MODULES);
    let modules = modules.get_or_insert_default();
    if let Some(module) = modules.get(path) {
        return Ok(module.clone());
    }
    let failed = |error: Error| failed(path, &describe(&error));
    let module = Pkcs11::new(path).map_err(failed)?;
    match module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
        Err(error) => return Err(failed(error)),
    }
    modules.insert(path.to_owned(), module.clone());
    Ok(module)
}

fn gcm<'a>(nonce: &'a mut [u8], context: &'a [u8]) -> Result<GcmParams<'a>, Error> {
    GcmParams::new(nonce, context, (TAG_BYTES as u64 * 8).into())
}

/// Results of C_Decrypt for bytes that another key wrapped; SoftHSM has the general error.
fn is_refusal(result: RvError) -> bool {
    matches!(
        result,
        RvError::EncryptedDataInvalid | RvError::EncryptedDataLenRange | RvError::GeneralError
    )
}

/// The name of a result in place of the crate's long sentences.
fn describe(error: &Error) -> String {
    match error {
        Error::Pkcs11(result, function) => format!("C_{function:?} returned {result:?}"),
        Error::LibraryLoading(error) => format!("cannot be loaded: {error}"),
        error => error.to_string(),
    }
}

fn failed(module: &Path, what: &str) -> MasterKeyError {
    MasterKeyError::Source(format!("pkcs11 module {}: {what}", module.display()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
