//! Encodes the signed text in base64, directly into the hash.
//!
//! The body is encoded for every verified message, which is most of the cost besides hash and key.
//! Sixty-four characters are produced at a time, without branches or tables, so that the compiler
//! can use vector instructions.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Bytes per block, and its groups of three bytes and four characters.
const BLOCK_BYTES: usize = 48;
const GROUPS: usize = BLOCK_BYTES / 3;

/// Bytes encoded at once. A multiple of three, so that no bytes remain in between, and slightly
/// more than whole blocks, because a block is read one byte beyond its end.
pub(crate) const CHUNK_BYTES: usize = 32 * BLOCK_BYTES + 3;

/// Characters of a chunk.
pub(crate) type Characters = [u8; CHUNK_BYTES / 3 * 4];

/// Encodes at most [`CHUNK_BYTES`] in base64url without padding, and returns the characters.
pub(crate) fn encode<'a>(bytes: &[u8], out: &'a mut Characters) -> &'a [u8] {
    let blocks = bytes.len().saturating_sub(1) / BLOCK_BYTES;
    let (places, _) = out.as_chunks_mut::<{ GROUPS * 4 }>();
    for (number, place) in places.iter_mut().enumerate().take(blocks) {
        let at = number * BLOCK_BYTES;
        let (window, _) = bytes[at..].split_first_chunk().expect("a byte follows the block");
        encode_block(window, place);
    }
    let mut at = blocks * GROUPS * 4;
    for group in bytes[blocks * BLOCK_BYTES..].chunks(3) {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        // One byte gives two characters, two bytes give three. Unused bits are zero.
        for shift in [18, 12, 6, 0].into_iter().take(group.len() + 1) {
            out[at] = ALPHABET[(bits >> shift & 0x3f) as usize];
            at += 1;
        }
    }
    &out[..at]
}

fn encode_block(window: &[u8; BLOCK_BYTES + 1], place: &mut [u8; GROUPS * 4]) {
    let mut groups = [0u32; GROUPS];
    for (number, group) in groups.iter_mut().enumerate() {
        let at = 3 * number;
        let four = [window[at], window[at + 1], window[at + 2], window[at + 3]];
        *group = u32::from_le_bytes(four);
    }
    // Three bytes, the first one lowest, become four times six bits in the same order. (Swapping
    // the bytes first would need fewer steps, but not on vectors.)
    for group in &mut groups {
        let bits = *group;
        *group = (bits >> 2 & 0x3f)
            | (bits << 12 & 0x3000)
            | (bits >> 4 & 0x0f00)
            | (bits << 10 & 0x003c_0000)
            | (bits >> 6 & 0x0003_0000)
            | (bits << 8 & 0x3f00_0000);
    }
    let (fours, _) = place.as_chunks_mut::<4>();
    for (four, group) in fours.iter_mut().zip(&groups) {
        *four = group.to_le_bytes();
    }
    for character in place {
        *character = of_alphabet(*character);
    }
}

/// The character for six bits.
fn of_alphabet(bits: u8) -> u8 {
    let from = |least: u8, step: u8| if least <= bits { step } else { 0 };
    // Relative to the previous range: `a` is 6 above `Z` + 1, `0` is 75 below `z` + 1, and so on.
    bits.wrapping_add(b'A')
        .wrapping_add(from(26, 6))
        .wrapping_sub(from(52, 75))
        .wrapping_sub(from(62, 13))
        .wrapping_add(from(63, 49))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoding_agrees_with_the_library(bytes in prop::collection::vec(any::<u8>(), 0..=200)) {
            let mut out = [0; CHUNK_BYTES / 3 * 4];
            let library = URL_SAFE_NO_PAD.encode(&bytes);
            prop_assert_eq!(encode(&bytes, &mut out), library.as_bytes());
        }
    }

    #[test]
    fn every_length_and_every_character() {
        let mut out = [0; CHUNK_BYTES / 3 * 4];
        for length in 0..=CHUNK_BYTES {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + at / 256) as u8).collect();
            let library = URL_SAFE_NO_PAD.encode(&bytes);
            assert_eq!(encode(&bytes, &mut out), library.as_bytes(), "{length}");
        }
    }
}
