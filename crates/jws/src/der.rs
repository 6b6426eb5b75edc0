//! The subset of DER needed for keys: finds the key in a certificate, and determines the kind of a
//! key.
//!
//! It does not validate keys; the cryptographic library does.

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
/// `[0]` of a certificate: its version, absent in the oldest ones.
const VERSION: u8 = 0xa0;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ELLIPTIC_CURVE: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

/// The kind of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA.
    Rsa {
        /// Bits of the modulus.
        bits: usize,
    },
    /// A point on the curve P-256.
    P256,
    /// Anything else.
    Other,
}

/// The `SubjectPublicKeyInfo` of an X.509 certificate.
pub(crate) fn key_of_certificate(certificate: &[u8]) -> Option<&[u8]> {
    let mut certificate = only(certificate, SEQUENCE)?;
    let mut body = take(&mut certificate, SEQUENCE)?.content;
    if body.first() == Some(&VERSION) {
        take(&mut body, VERSION)?;
    }
    take(&mut body, INTEGER)?;
    // Signature algorithm, issuer, validity, subject.
    for _ in 0..4 {
        take(&mut body, SEQUENCE)?;
    }
    Some(take(&mut body, SEQUENCE)?.whole)
}

/// The kind of a `SubjectPublicKeyInfo`; `None` if it is invalid.
pub(crate) fn kind(key: &[u8]) -> Option<KeyKind> {
    let mut key = only(key, SEQUENCE)?;
    let mut algorithm = take(&mut key, SEQUENCE)?.content;
    let bits = only(key, BIT_STRING)?;
    let name = take(&mut algorithm, OBJECT_ID)?.content;
    if name == RSA {
        let (0, modulus) = bits.split_first().map(|(unused, key)| (*unused, key))? else {
            return None;
        };
        return Some(KeyKind::Rsa { bits: modulus_bits(modulus)? });
    }
    let curve = algorithm;
    let is_p256 = name == ELLIPTIC_CURVE && only(curve, OBJECT_ID) == Some(P256);
    Some(if is_p256 { KeyKind::P256 } else { KeyKind::Other })
}

fn modulus_bits(key: &[u8]) -> Option<usize> {
    let mut key = only(key, SEQUENCE)?;
    let modulus = take(&mut key, INTEGER)?.content;
    let leading = modulus.iter().take_while(|byte| **byte == 0).count();
    let first = modulus.get(leading)?;
    Some((modulus.len() - leading) * 8 - first.leading_zeros() as usize)
}

struct Element<'a> {
    content: &'a [u8],
    /// With tag and length.
    whole: &'a [u8],
}

/// The content of the only element.
fn only(mut input: &[u8], tag: u8) -> Option<&[u8]> {
    let element = take(&mut input, tag)?;
    input.is_empty().then_some(element.content)
}

/// Splits one element off the front.
fn take<'a>(input: &mut &'a [u8], tag: u8) -> Option<Element<'a>> {
    let all = *input;
    let (&[found, length], rest) = all.split_first_chunk::<2>()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        // No valid length, or far longer than any key.
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    *input = after;
    (found == tag).then(|| Element { content, whole: &all[..all.len() - after.len()] })
}
