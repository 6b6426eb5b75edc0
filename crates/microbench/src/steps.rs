//! The operations: decisions of the kernel, stored forms, the steps of a message, signatures.

use bytes::Bytes;
use fspiop::endpoint::EndpointType;
use fspiop::forwarded_headers::{Forwarding, rewrite, strip};
use fspiop::{Accepted, ErrorCode, TraceContext, body_hash, stored_message};
use http::HeaderMap;
use ledger::{Command, Stamp, TransferId};
use node::latency_trace::{Inbound, LatencyTrace, TracePoint, TraceSubject};
use record::command::{FIELDS_VERSION, read_fields, write_fields};
use record::frame::{BatchHeader, EncodedRecord, Frame, FrameBuilder, LogIdentity, Tail};

use crate::kernel::Kernel;
use crate::messages::{PREPARE_AT, SAMPLES, Sample};
use crate::operation::{Group, Operation};
use crate::workload::{Spread, Workload};

/// Repetitions of most operations per call.
const COUNT: usize = 1_000;

/// Every operation except the signatures.
#[must_use]
pub fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    kernel(&mut all);
    codec(&mut all);
    waterfall(&mut all);
    for sample in SAMPLES {
        message(&mut all, sample);
    }
    all.push(Operation::plain((Group::Fspiop, "error body", COUNT), || {
        let code = ErrorCode::VALIDATION;
        fspiop::hub_messages::error(code, &code.describe("/requestBody/amount is wrong"), &[])
    }));
    all
}

/// A trace point of a message that is not traced: the cost of the waterfall when it is off.
fn waterfall(all: &mut Vec<Operation>) {
    let stages = LatencyTrace::new(0);
    let transfer = TransferId::from_bytes([0; 17]).expect("the form of a UUID");
    all.push(Operation::plain((Group::Waterfall, "trace point, not traced", COUNT), move || {
        let now = stages.now_ns().map(|now| (TracePoint::Taken, now));
        stages.mark(0, transfer, TraceSubject::Taking(Inbound::Prepare), now);
    }));
}

/// Prepares and fulfils of two participants, in batches of a thousand.
fn kernel(all: &mut Vec<Operation>) {
    let ready = || {
        let mut workload = Workload::new(Spread::Hot, 0);
        let kernel = Kernel::new(&workload);
        let (prepares, fulfils): (Vec<_>, Vec<_>) = (0..COUNT).map(|_| workload.next()).unzip();
        (kernel, prepares, fulfils)
    };
    let apply = |(kernel, commands): &mut (Kernel, Vec<Command>)| kernel.apply(commands);
    let prepares = move || {
        let (kernel, prepares, _) = ready();
        (kernel, prepares)
    };
    let fulfils = move || {
        let (mut kernel, prepares, fulfils) = ready();
        kernel.apply(&prepares);
        (kernel, fulfils)
    };
    all.push(Operation::batch((Group::Kernel, "prepare", COUNT), prepares, apply));
    all.push(Operation::batch((Group::Kernel, "fulfil", COUNT), fulfils, apply));
}

fn codec(all: &mut Vec<Operation>) {
    let (prepare, fulfil) = Workload::new(Spread::Hot, 0).next();
    for (encode, decode, command) in [
        ("encode a prepare without body", "decode a prepare", prepare.clone()),
        ("encode a fulfil without body", "decode a fulfil", fulfil),
    ] {
        let (kind, mut fields) = (command.number(), Vec::new());
        write_fields(&command, &mut fields);
        all.push(Operation::plain((Group::Codec, encode, COUNT), move || {
            sequencer::encode(&command, None).expect("small")
        }));
        all.push(Operation::plain((Group::Codec, decode, COUNT), move || {
            read_fields(kind, FIELDS_VERSION, &fields).expect("just encoded")
        }));
    }
    let body = SAMPLES[PREPARE_AT].body.as_bytes();
    let with_body = prepare.clone();
    all.push(Operation::plain(
        (Group::Codec, "encode a prepare with its body", COUNT),
        move || sequencer::encode(&with_body, Some(body)).expect("small"),
    ));
    let record = sequencer::encode(&prepare, None).expect("it is small");
    frames(all, &record);
}

/// Sealing and parsing, per record of a frame of a thousand. The builder is reused, as in the
/// sequencer: the cost of growing its buffer would depend on the allocator.
fn frames(all: &mut Vec<Operation>, record: &record::frame::EncodedRecord) {
    let tail = Tail::genesis(LogIdentity([9; 16]));
    let header = BatchHeader { stamp: Stamp(1), ..BatchHeader::default() };
    let one = record.clone();
    let fill = move |builder: &mut FrameBuilder| {
        (0..COUNT).for_each(|_| builder.push(&one).expect("a frame holds a thousand"));
    };
    let mut full = FrameBuilder::new();
    fill(&mut full);
    let sealed = full.seal(&tail, &header).bytes.to_vec();
    let seal = (Group::Codec, "push a record and seal its frame", COUNT);
    let again = fill.clone();
    let warm = move || {
        let mut builder = FrameBuilder::new();
        again(&mut builder);
        builder.clear();
        builder
    };
    all.push(Operation::batch(seal, warm, move |builder| {
        fill(builder);
        std::hint::black_box(builder.seal(&tail, &header));
    }));
    let bytes = sealed.clone();
    let parse = (Group::Codec, "check a frame, per record", COUNT);
    all.push(Operation::batch(
        parse,
        || (),
        move |()| {
            std::hint::black_box(Frame::parse(&bytes).expect("just sealed"));
        },
    ));
    let chain = (Group::Codec, "chain hash, per record", COUNT);
    let bytes = move || sealed.clone();
    all.push(Operation::batch(chain, bytes, move |bytes| {
        let frame = Frame::parse(bytes).expect("it was just sealed");
        assert!(frame.verify_chain(&tail.chain), "just sealed");
    }));
}

/// The steps of one kind of message, and all of them together.
fn message(all: &mut Vec<Operation>, sample: Sample) {
    let named = |step: &str| format!("{}: {step}", sample.name);
    let headers = sample.headers();
    let body = sample.body.as_bytes();
    let mut step = |name: &str, perform: Box<dyn FnMut()>| {
        all.push(Operation::plain((Group::Fspiop, &named(name), COUNT), perform));
    };
    let inbound = headers.clone();
    step("path and headers", Box::new(move || drop_box(accept(&sample, &inbound))));
    if !body.is_empty() {
        step("body", Box::new(move || assert!((sample.parse)(body), "valid sample")));
    }
    if sample.recorded {
        step("hash of the body", Box::new(move || drop_box(body_hash(body))));
        let (source, mut out) = (headers.clone(), Vec::new());
        let encode = move || {
            out.clear();
            stored_message::encode(&source, body, &mut out);
        };
        step("stored form, encoded", Box::new(encode));
        let mut out = Vec::new();
        stored_message::encode(&headers, body, &mut out);
        let stored = Bytes::from(out);
        let decode = move || drop_box(stored_message::decode(&stored).expect("just encoded"));
        step("stored form, decoded", Box::new(decode));
        let (headers, (command, _)) = (headers.clone(), Workload::new(Spread::Hot, 0).next());
        step("record", Box::new(move || drop_box(record_of(&command, &headers, body))));
        step("address of the callback", Box::new(move || drop_box(address(sample.path))));
    }
    let source = headers.clone();
    all.push(Operation::prepared(
        (Group::Fspiop, &named("headers rewritten"), COUNT),
        move || source.clone(),
        move |headers| forward(&sample, headers, TraceContext::new([3; 16])),
    ));
    all.push(Operation::prepared(
        (Group::Message, sample.name, COUNT),
        move || headers.clone(),
        move |headers| {
            let trace = accept(&sample, headers);
            assert!((sample.parse)(body), "valid sample");
            if sample.recorded {
                drop_box(body_hash(body));
            }
            forward(&sample, headers, trace);
        },
    ));
}

/// The trace of a message whose path and headers are checked.
fn accept(sample: &Sample, headers: &HeaderMap) -> TraceContext {
    match fspiop::accept(sample.method, sample.path, headers).expect("valid sample") {
        Accepted::Message { route, headers } => {
            drop_box(route);
            headers.trace.expect("every sample has one")
        }
        Accepted::Health | Accepted::EndpointCache => unreachable!("samples are of the API"),
    }
}

/// The record of a message, as the edge writes it.
fn record_of(command: &Command, headers: &HeaderMap, body: &[u8]) -> EncodedRecord {
    EncodedRecord::write(
        (command.number(), FIELDS_VERSION),
        256 + stored_message::bytes_max(headers, body),
        |out| write_fields(command, out),
        |out| stored_message::encode(headers, body, out),
    )
    .expect("small")
}

/// The path of the callback to a participant that registered a template.
fn address(path: &str) -> String {
    let id = path.split('/').nth(2).unwrap_or_default();
    EndpointType::TransferPut.address("/transfers/{{transferId}}", &[("transferId", id)], path)
}

fn forward(sample: &Sample, headers: &mut HeaderMap, trace: TraceContext) {
    let (method, path) = (sample.method, sample.path);
    let with = Forwarding { method, path, destination: None, trace, span: 77, now_ms: 0 };
    strip(headers);
    rewrite(headers, &with);
}

fn drop_box<T>(value: T) {
    std::hint::black_box(value);
}
