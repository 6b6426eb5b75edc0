//! Master keys in tokens, by PKCS#11. The key never leaves its token: the token encrypts and
//! decrypts data keys, with AES-GCM.
//!
//! A module is loaded and initialised once in a process. Each use opens a session, so that a token
//! that was away can be used again.
//!
//! Each use has a thread of its own and [`USE_TIME_MAX`] to return. A module that hangs keeps its
//! thread, at most [`HANGING_MAX`] of them; further uses fail at once.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

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

/// Longest time of one use of a module.
const USE_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of threads in uses that took longer.
const HANGING_MAX: usize = 4;
/// Their present number.
static HANGING: AtomicUsize = AtomicUsize::new(0);

/// An AES key in a token.
pub struct TokenKey {
    name: String,
    key: Arc<ObjectKey>,
}

/// The object that a URI names.
struct ObjectKey {
    uri: KeyUri,
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
        let path = uri.module.clone();
        within_limit(&path, move || {
            let module = load(&uri.module)?;
            let key = ObjectKey { uri, module, refused_pin: Mutex::default() };
            let KeyAttributes { label, id, bytes } = key.attributes()?;
            if let Some(bytes) = bytes.filter(|bytes| *bytes != KEY_BYTES) {
                let label = String::from_utf8_lossy(&label);
                return Err(key.failure(&format!(
                    "key \"{label}\" is {bytes} bytes long; create an AES key of {KEY_BYTES} bytes"
                )));
            }
            let name = KeyUri::name(&label, &id);
            Ok(Self { name, key: Arc::new(key) })
        })
    }

    /// Uses the key in a session, within the limit.
    fn with_key<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Session, ObjectHandle) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, MasterKeyError> {
        let key = Arc::clone(&self.key);
        within_limit(&self.key.uri.module, move || key.in_session(work))
    }
}

/// Attributes of a key.
#[derive(Default)]
struct KeyAttributes {
    label: Vec<u8>,
    id: Vec<u8>,
    /// Its length, if the token shows it.
    bytes: Option<usize>,
}

impl ObjectKey {
    fn attributes(&self) -> Result<KeyAttributes, MasterKeyError> {
        self.in_session(|session, object| {
            let wanted = [AttributeType::Label, AttributeType::Id, AttributeType::ValueLen];
            let mut found = KeyAttributes::default();
            for attribute in session.get_attributes(object, &wanted)? {
                match attribute {
                    Attribute::Label(text) => found.label = text,
                    Attribute::Id(text) => found.id = text,
                    Attribute::ValueLen(length) => found.bytes = usize::try_from(*length).ok(),
                    _ => {}
                }
            }
            Ok(found)
        })
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
        let (wrapped, context, key) = (nonce.to_vec(), context.to_vec(), *key);
        let sealed = self.with_key(move |session, master| {
            session.encrypt(&Mechanism::AesGcm(gcm(&mut nonce, &context)?), master, &key)
        })?;
        Ok([wrapped, sealed].concat())
    }

    fn unwrap(&self, context: &[u8], wrapped: &[u8]) -> Result<[u8; KEY_BYTES], MasterKeyError> {
        let (nonce, sealed) = wrapped.split_first_chunk().ok_or(MasterKeyError::Refused)?;
        let mut nonce: [u8; NONCE_BYTES] = *nonce;
        let (context, sealed) = (context.to_vec(), sealed.to_vec());
        let key = self.with_key(move |session, master| {
            session.decrypt(&Mechanism::AesGcm(gcm(&mut nonce, &context)?), master, &sealed)
        })?;
        key.try_into().map_err(|_| MasterKeyError::Refused)
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Runs a use of a module on a thread of its own.
fn within_limit<T: Send + 'static>(
    module: &Path,
    work: impl FnOnce() -> Result<T, MasterKeyError> + Send + 'static,
) -> Result<T, MasterKeyError> {
    if HANGING_MAX <= HANGING.load(Ordering::SeqCst) {
        return Err(failed(module, "earlier calls have not returned; restart this program"));
    }
    let (sender, receiver) = mpsc::sync_channel(0);
    let run = move || {
        // Without a receiver, the use was counted as one that hangs.
        if sender.send(work()).is_err() {
            HANGING.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let spawned = thread::Builder::new().name("pkcs11".into()).spawn(run);
    spawned.map_err(|error| failed(module, &error.to_string()))?;
    match receiver.recv_timeout(USE_TIME_MAX) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(failed(module, "it panicked")),
        Err(mpsc::RecvTimeoutError::Timeout) => {
            HANGING.fetch_add(1, Ordering::SeqCst);
            let seconds = USE_TIME_MAX.as_secs();
            Err(failed(module, &format!("no answer within {seconds} s; check module and token")))
        }
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
