//! The statement of a bank as ISO 20022 camt.053, of any version.
//!
//! An account is known by its number (`Acct/Id/IBAN` or `Acct/Id/Othr/Id`) and its owner
//! (`Acct/Ownr/Nm`). Only booked entries count. The references of an entry are all of its own and
//! those of its transactions. A message of the switch itself also has other accounts than those of
//! type SETTLEMENT (`Acct/Tp/Prtry`): they are skipped.

use ledger::{AccountKind, Amount};
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::operate::reconcile::bank::{
    BankBalance, BankEntry, BankStatement, Holder, LineCounter, LineFault, SETTLEMENT,
    SkippedAccount, SourceLine, amount, currency, date, signed,
};

/// Deepest nesting of elements.
const DEPTH_MAX: usize = 64;
const NAMESPACE: &str = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.";

/// An element.
#[derive(Debug, Default)]
struct Element {
    name: String,
    line: u64,
    /// Its attributes.
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// All elements at a path of names.
    fn all<'e>(&'e self, path: &str) -> Vec<&'e Element> {
        let mut found = vec![self];
        for name in path.split('/') {
            let children = found.into_iter().flat_map(|it| &it.children);
            found = children.filter(|child| child.name == name).collect();
        }
        found
    }

    fn first(&self, path: &str) -> Option<&Element> {
        self.all(path).into_iter().next()
    }

    /// The text of the first of these paths that exists and is not blank.
    fn text_at(&self, paths: &[&str]) -> Option<&str> {
        let mut texts = paths.iter().filter_map(|path| self.first(path));
        texts.find_map(|it| Some(it.text.trim()).filter(|text| !text.is_empty()))
    }

    /// The text that the element must have.
    fn needed(&self, paths: &[&str]) -> Result<&str, LineFault> {
        let what = || format!("{} has no {}", self.name, paths[0]);
        self.text_at(paths).ok_or_else(|| LineFault::new(self.line, what()))
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Reads a file with this number. The error names every unreadable line.
pub(super) fn parse(text: &str, file: usize) -> Result<BankStatement, Vec<LineFault>> {
    let document = tree(text).map_err(|fault| vec![fault])?;
    let namespace = document.attribute("xmlns").unwrap_or_default();
    if document.name != "Document" || !namespace.starts_with(NAMESPACE) {
        let what = format!("not a camt.053: its namespace is {namespace:?}");
        return Err(vec![LineFault::new(document.line, what)]);
    }
    let stmts = document.all("BkToCstmrStmt/Stmt");
    if stmts.is_empty() {
        let what = "the camt.053 has no Stmt: there is nothing to compare";
        return Err(vec![LineFault::new(document.line, what)]);
    }
    let (mut statement, mut faults) = (BankStatement::default(), Vec::new());
    for stmt in &stmts {
        let holder = Holder {
            participant: stmt.text_at(&["Acct/Ownr/Nm"]).map(str::to_owned),
            account: stmt.text_at(&["Acct/Id/IBAN", "Acct/Id/Othr/Id"]).map(str::to_owned),
        };
        if let Some(kind) = other_kind(stmt) {
            let place = SourceLine { file, line: stmt.line };
            statement.skipped.push(SkippedAccount { place, holder, kind: kind.to_owned() });
            continue;
        }
        for entry in stmt.all("Ntry") {
            match entry_of(entry, &holder, file) {
                Ok(found) => statement.entries.extend(found),
                Err(fault) => faults.push(fault),
            }
        }
        for balance in stmt.all("Bal") {
            match closing(balance, &holder, file) {
                Ok(found) => statement.closings.extend(found),
                Err(fault) => faults.push(fault),
            }
        }
    }
    if statement.skipped.len() == stmts.len() {
        let what = "no Stmt is of a SETTLEMENT account: there is nothing to compare";
        faults.push(LineFault::new(document.line, what));
    }
    if faults.is_empty() { Ok(statement) } else { Err(faults) }
}

/// The type of an account of the switch that is not compared.
fn other_kind(stmt: &Element) -> Option<&str> {
    let kind = stmt.text_at(&["Acct/Tp/Prtry"])?;
    (kind != SETTLEMENT && AccountKind::parse(kind).is_some()).then_some(kind)
}

/// A booked entry; `None` if it is not booked.
fn entry_of(entry: &Element, holder: &Holder, file: usize) -> Result<Option<BankEntry>, LineFault> {
    let line = entry.line;
    if entry.needed(&["Sts/Cd", "Sts"])? != "BOOK" {
        return Ok(None);
    }
    let date =
        date(line, entry.needed(&["BookgDt/Dt", "BookgDt/DtTm", "ValDt/Dt", "ValDt/DtTm"])?)?;
    let (currency, amount) = money(entry)?;
    let own = ["NtryRef", "AcctSvcrRef"].into_iter().filter_map(|path| entry.text_at(&[path]));
    let mut references: Vec<_> = own.map(str::to_owned).collect();
    for refs in entry.all("NtryDtls/TxDtls/Refs") {
        let texts = refs.children.iter().map(|it| it.text.trim().to_owned());
        references.extend(texts.filter(|text| !text.is_empty()));
    }
    for lines in entry.all("NtryDtls/TxDtls/RmtInf/Ustrd") {
        references.push(lines.text.trim().to_owned());
    }
    let (place, holder) = (SourceLine { file, line }, holder.clone());
    Ok(Some(BankEntry { place, holder, date, currency, amount, references }))
}

/// A booked closing balance; `None` for another balance.
fn closing(
    balance: &Element,
    holder: &Holder,
    file: usize,
) -> Result<Option<BankBalance>, LineFault> {
    if balance.text_at(&["Tp/CdOrPrtry/Cd"]) != Some("CLBD") {
        return Ok(None);
    }
    let (currency, amount) = money(balance)?;
    let (line, holder) = (balance.line, holder.clone());
    let date = date(line, balance.needed(&["Dt/Dt", "Dt/DtTm"])?)?;
    let place = SourceLine { file, line };
    Ok(Some(BankBalance { place, holder, date, currency, amount }))
}

/// The amount with its currency and its sign.
fn money(element: &Element) -> Result<(ledger::Currency, Amount), LineFault> {
    let text = element.needed(&["Amt"])?;
    let amt = element.first("Amt").expect("it has a text");
    let currency = currency(amt.line, amt.attribute("Ccy").unwrap_or_default())?;
    let indicator = element.needed(&["CdtDbtInd"])?;
    Ok((currency, signed(element.line, amount(amt.line, text)?, indicator)?))
}

/// The elements of a document. Custom entities are refused.
fn tree(text: &str) -> Result<Element, LineFault> {
    let mut reader = Reader::from_str(text);
    let mut lines = LineCounter::new(text);
    let mut open = vec![Element::default()];
    loop {
        let line = lines.at(reader.buffer_position());
        let event = reader.read_event().map_err(|error| {
            LineFault::new(lines.at(reader.error_position()), error.to_string())
        })?;
        match event {
            Event::Start(start) => {
                if DEPTH_MAX < open.len() {
                    return Err(LineFault::new(line, "elements are nested too deeply"));
                }
                open.push(element(&start, line)?);
            }
            Event::Empty(start) => {
                let child = element(&start, line)?;
                open.last_mut().expect("the root is open").children.push(child);
            }
            Event::End(_) => {
                let child = open.pop().expect("the reader checks the nesting");
                open.last_mut().expect("the root is open").children.push(child);
            }
            Event::Text(text) => {
                let text =
                    text.decode().map_err(|error| LineFault::new(line, error.to_string()))?;
                open.last_mut().expect("the root is open").text.push_str(&text);
            }
            Event::CData(text) => {
                let text =
                    text.decode().map_err(|error| LineFault::new(line, error.to_string()))?;
                open.last_mut().expect("the root is open").text.push_str(&text);
            }
            Event::GeneralRef(reference) => {
                let character = resolved(&reference, line)?;
                open.last_mut().expect("the root is open").text.push_str(&character);
            }
            Event::DocType(_) => return Err(LineFault::new(line, "a DOCTYPE is not allowed")),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => break,
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(mut root), true) if root.children.len() == 1 => {
            Ok(root.children.pop().expect("it has one"))
        }
        _ => Err(LineFault::new(lines.at(text.len() as u64), "the document is incomplete")),
    }
}

fn element(start: &BytesStart<'_>, line: u64) -> Result<Element, LineFault> {
    let name = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| LineFault::new(line, error.to_string()))?;
        let key = attribute.key;
        // A namespace with a prefix, as some banks write it, counts as the default one.
        let key = if key.prefix().is_some_and(|it| it.as_ref() == b"xmlns") {
            "xmlns".to_owned()
        } else {
            String::from_utf8_lossy(key.as_ref()).into_owned()
        };
        attributes.push((key, String::from_utf8_lossy(&attribute.value).into_owned()));
    }
    // The namespace of the messages comes first.
    attributes.sort_by_key(|(_, value)| !value.starts_with(NAMESPACE));
    Ok(Element { name, line, attributes, ..Element::default() })
}

fn resolved(reference: &BytesRef<'_>, line: u64) -> Result<String, LineFault> {
    let failed = |what: String| LineFault::new(line, what);
    if let Some(character) =
        reference.resolve_char_ref().map_err(|error| failed(error.to_string()))?
    {
        return Ok(character.to_string());
    }
    let name = reference.decode().map_err(|error| failed(error.to_string()))?;
    let found = resolve_predefined_entity(&name).map(str::to_owned);
    found.ok_or_else(|| failed(format!("unknown entity {name:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATEMENT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<c:Document xmlns:c="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02">
<c:BkToCstmrStmt><c:Stmt>
<c:Acct><c:Id><c:IBAN>DE12</c:IBAN></c:Id><c:Ownr><c:Nm>dfsp &amp; co</c:Nm></c:Ownr></c:Acct>
<c:Bal><c:Tp><c:CdOrPrtry><c:Cd>CLBD</c:Cd></c:CdOrPrtry></c:Tp>
<c:Amt Ccy="USD">100.00</c:Amt><c:CdtDbtInd>CRDT</c:CdtDbtInd><c:Dt><c:Dt>2026-05-02</c:Dt></c:Dt></c:Bal>
<c:Ntry><c:Amt Ccy="USD">12.50</c:Amt><c:CdtDbtInd>DBIT</c:CdtDbtInd><c:Sts>BOOK</c:Sts>
<c:BookgDt><c:Dt>2026-05-01</c:Dt></c:BookgDt>
<c:NtryDtls><c:TxDtls><c:Refs><c:EndToEndId>advice 1</c:EndToEndId></c:Refs></c:TxDtls></c:NtryDtls>
</c:Ntry>
<c:Ntry><c:Amt Ccy="USD">1</c:Amt><c:CdtDbtInd>CRDT</c:CdtDbtInd><c:Sts>PDNG</c:Sts></c:Ntry>
</c:Stmt></c:BkToCstmrStmt>
</c:Document>
"#;

    #[test]
    fn booked_entries_and_closing_balances_are_read() {
        let statement = parse(STATEMENT, 2).unwrap();
        let holder = Holder { participant: Some("dfsp & co".into()), account: Some("DE12".into()) };
        let usd = ledger::Currency::parse("USD").unwrap();
        assert_eq!(
            statement.entries,
            [BankEntry {
                place: SourceLine { file: 2, line: 7 },
                holder: holder.clone(),
                date: "2026-05-01".into(),
                currency: usd,
                amount: Amount::parse_decimal("-12.5").unwrap(),
                references: vec!["advice 1".into()],
            }]
        );
        let amount = Amount::parse_decimal("100").unwrap();
        let (place, date) = (SourceLine { file: 2, line: 5 }, "2026-05-02".to_owned());
        assert_eq!(
            statement.closings,
            [BankBalance { place, holder, date, currency: usd, amount }]
        );
        assert_eq!(statement.skipped, []);
    }

    #[test]
    fn every_unreadable_line_is_named() {
        for (from, to, line, what) in [
            ("camt.053", "camt.054", 2, "not a camt.053"),
            ("Ccy=\"USD\">12.50", "Ccy=\"USD\">12,50", 7, "amount \"12,50\""),
            ("<c:Dt>2026-05-01</c:Dt>", "", 7, "Ntry has no BookgDt/Dt"),
            ("<c:Dt>2026-05-02</c:Dt>", "", 5, "Bal has no Dt/Dt"),
            ("<c:Dt>2026-05-02</c:Dt>", "<c:Dt>today</c:Dt>", 5, "date \"today\""),
            ("<c:CdtDbtInd>DBIT", "<c:CdtDbtInd>DEBT", 7, "direction \"DEBT\""),
            ("&amp;", "&own;", 4, "unknown entity \"own\""),
            ("</c:Acct>", "</c:Act>", 4, "Act"),
            ("</c:Document>\n", "", 13, "incomplete"),
            ("<c:Document ", "<!DOCTYPE a>\n<c:Document ", 2, "DOCTYPE"),
        ] {
            assert!(STATEMENT.contains(from), "{from}");
            let changed = STATEMENT.replacen(from, to, 1);
            for text in [changed.replace('\n', "\r\n"), changed] {
                let faults = parse(&text, 0).unwrap_err();
                let [fault] = &faults[..] else { panic!("{to}: {faults:?}") };
                assert!(fault.line == line && fault.what.contains(what), "{to}: {fault:?}");
            }
        }
    }

    #[test]
    fn only_settlement_accounts_are_compared() {
        let typed = |kind: &str| {
            let tail = format!("<c:Tp><c:Prtry>{kind}</c:Prtry></c:Tp></c:Acct>");
            STATEMENT.replacen("</c:Acct>", &tail, 1)
        };
        for compared in ["SETTLEMENT", "a type of the bank"] {
            let statement = parse(&typed(compared), 0).unwrap();
            assert_eq!((statement.entries.len(), statement.skipped.len()), (1, 0), "{compared}");
        }
        let (other, own) = (typed("POSITION"), typed("SETTLEMENT"));
        let faults = parse(&other, 0).unwrap_err();
        assert_eq!(
            faults[0].what,
            "no Stmt is of a SETTLEMENT account: there is nothing to compare"
        );
        let (head, _) = other.split_once("</c:BkToCstmrStmt>").unwrap();
        let (_, tail) = own.split_once("<c:BkToCstmrStmt>").unwrap();
        let both = parse(&format!("{head}{tail}"), 1).unwrap();
        assert_eq!((both.entries.len(), both.closings.len()), (1, 1));
        let [skipped] = &both.skipped[..] else { panic!("{:?}", both.skipped) };
        assert_eq!((skipped.kind.as_str(), skipped.place.line), ("POSITION", 3));
    }

    #[test]
    fn a_message_without_statements_is_refused() {
        let (head, rest) = STATEMENT.split_once("<c:Stmt>").unwrap();
        let (_, tail) = rest.split_once("</c:Stmt>").unwrap();
        let faults = parse(&format!("{head}{tail}"), 0).unwrap_err();
        let expected = "the camt.053 has no Stmt: there is nothing to compare";
        assert_eq!(faults, [LineFault::new(2, expected)]);
    }

    #[test]
    fn a_cut_file_is_refused_at_every_place() {
        for end in 0..STATEMENT.len() - "</c:Document>\n".len() {
            if STATEMENT.is_char_boundary(end) {
                assert!(parse(&STATEMENT[..end], 0).is_err(), "cut at {end}");
            }
        }
    }
}
