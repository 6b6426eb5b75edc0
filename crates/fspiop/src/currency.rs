//! The currency codes of the scheme.

/// Codes that the reference knows: ISO 4217 alphabetic codes, active and recently withdrawn, and
/// the codes of territories in its published list.
const CODES: &[u8] = b"\
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BOV BRL BSD BTN \
    BWP BYN BYR BZD CAD CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUC CUP CVE CZK DJF DKK DOP DZD \
    EGP ERN ETB EUR FJD FKP GBP GEL GGP GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF IDR ILS IMP \
    INR IQD IRR ISK JEP JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD \
    MAD MDL MGA MKD MMK MNT MOP MRO MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR \
    PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SLL SOS SPL \
    SRD SSP STD STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TVD TWD TZS UAH UGX USD USN UYI UYU \
    UYW UZS VED VEF VES VND VUV WST XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XOF XPD XPF XPT XSU \
    XTS XUA XXX YER ZAR ZMW ZWD ZWG ZWL ";

/// One bit for each text of three capitals.
static KNOWN: [u64; 26 * 26 * 26 / 64 + 1] = {
    let mut known = [0; 26 * 26 * 26 / 64 + 1];
    let mut at = 0;
    while at < CODES.len() {
        let slot = slot([CODES[at], CODES[at + 1], CODES[at + 2]]);
        assert!(known[slot / 64] & (1 << (slot % 64)) == 0, "a code is listed twice");
        known[slot / 64] |= 1 << (slot % 64);
        at += 4;
    }
    known
};

/// Whether `text` is a currency code of the scheme (FSPIOP `Currency`): one table look-up.
#[must_use]
pub fn is_known_currency(text: &str) -> bool {
    match <[u8; 3]>::try_from(text.as_bytes()) {
        Ok(code) if code.iter().all(u8::is_ascii_uppercase) => {
            let slot = slot(code);
            KNOWN[slot / 64] & (1 << (slot % 64)) != 0
        }
        _ => false,
    }
}

/// Every currency code of the scheme, sorted.
pub fn known_currencies() -> impl Iterator<Item = &'static str> {
    CODES.chunks(4).filter_map(|code| std::str::from_utf8(&code[..3]).ok())
}

const fn slot(code: [u8; 3]) -> usize {
    ((code[0] - b'A') as usize * 26 + (code[1] - b'A') as usize) * 26 + (code[2] - b'A') as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_known_exactly() {
        let listed: Vec<_> = known_currencies().map(str::as_bytes).collect();
        assert!(listed.is_sorted());
        for first in b'A'..=b'Z' {
            for second in b'A'..=b'Z' {
                for third in b'A'..=b'Z' {
                    let code = [first, second, third];
                    let text = std::str::from_utf8(&code).expect("ASCII");
                    assert_eq!(
                        is_known_currency(text),
                        listed.contains(&code.as_slice()),
                        "{text}"
                    );
                }
            }
        }
        for text in ["", "US", "USDX", "usd", "U$D", "ÄB"] {
            assert!(!is_known_currency(text), "{text}");
        }
    }
}
