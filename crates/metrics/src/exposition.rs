//! The formats of a scrape, and the choice between them by the header `Accept`.

use crate::family::Family;
use crate::protobuf;
use crate::text::{self, TextFormat};

/// A format that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus text 0.0.4: for people, and if the client names no format.
    Text,
    /// OpenMetrics 1.0: with exemplars.
    OpenMetrics,
    /// Protobuf: with exemplars and native histograms.
    Protobuf,
}

impl Exposition {
    /// The format that a client prefers, by the value of its header `Accept`. Unknown formats and
    /// unreadable weights are ignored.
    #[must_use]
    pub fn negotiate(accept: &str) -> Self {
        let offered = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let format = Self::of(parts.next()?, range)?;
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            Some((weight.map_or(Some(1.0), |weight| weight.parse::<f32>().ok())?, format))
        });
        // Of equal weights, the first one.
        let better = |best: Option<(f32, Self)>, one: (f32, Self)| match best {
            Some(best) if one.0 <= best.0 => Some(best),
            _ => Some(one),
        };
        let best = offered.filter(|(weight, _)| 0.0 < *weight).fold(None, better);
        best.map_or(Self::Text, |(_, format)| format)
    }

    fn of(media_type: &str, range: &str) -> Option<Self> {
        match media_type.to_ascii_lowercase().as_str() {
            "application/vnd.google.protobuf" => {
                let is_delimited = range.contains("encoding=delimited");
                is_delimited.then_some(Self::Protobuf)
            }
            "application/openmetrics-text" => Some(Self::OpenMetrics),
            "text/plain" | "text/*" | "*/*" => Some(Self::Text),
            _ => None,
        }
    }

    /// The value of the header `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }

    /// Writes all families.
    #[must_use]
    pub fn encode(self, families: &[Family]) -> Vec<u8> {
        match self {
            Self::Text => text::write(families, TextFormat::Prometheus).into_bytes(),
            Self::OpenMetrics => text::write(families, TextFormat::OpenMetrics).into_bytes(),
            Self::Protobuf => protobuf::write(families),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::*;
    use crate::exemplars::{Exemplar, Exemplars};
    use crate::family::{HistogramValue, Labels, Number};
    use crate::histogram::Histogram;
    use crate::table::{Metric, collect};

    #[test]
    fn format_is_negotiated() {
        let protobuf = "application/vnd.google.protobuf;\
                        proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6";
        for (accept, format) in [
            ("", Exposition::Text),
            ("*/*", Exposition::Text),
            ("text/html", Exposition::Text),
            ("application/openmetrics-text", Exposition::OpenMetrics),
            ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2", {
                Exposition::OpenMetrics
            }),
            ("application/openmetrics-text;q=0.2,text/plain;q=0.5", Exposition::Text),
            ("application/openmetrics-text;q=0", Exposition::Text),
            ("application/openmetrics-text;q=x", Exposition::Text),
            (&format!("{protobuf},application/openmetrics-text;q=0.5"), Exposition::Protobuf),
            (&format!("{protobuf},application/openmetrics-text;q=0.7"), Exposition::OpenMetrics),
        ] {
            assert_eq!(Exposition::negotiate(accept), format, "{accept}");
        }
    }

    static TABLE: &[Metric<HistogramValue>] = crate::metrics! { now: HistogramValue;
        Counter "requests_total" "Requests." vec![
            (labels("say \"hi\"\\\n"), Number::Integer(2)), (labels("b"), Number::Integer(3)),
        ];
        Gauge "position" "Position." vec![(labels("b"), Number::TenThousandths(-15_001))];
        Gauge "absent" "Absent." None::<u64>;
        Histogram "answer_seconds" "Time to the answer." now.clone();
        Counter "cpu_seconds_total" "Time." Duration::from_millis(1_500);
        CoarseHistogram "tx" "Payments." now.clone();
        Counter "errorCount" "Errors." 3;
    };

    fn labels(value: &'static str) -> Labels {
        vec![("fsp", value.into())]
    }

    fn families() -> Vec<Family> {
        let (histogram, exemplars) = (Histogram::default(), Exemplars::default());
        let (trace, nanoseconds) = ([0xab; 16], 1_500_000_000);
        histogram.record_times(nanoseconds, 3);
        histogram.record(90_000);
        exemplars.record(&Exemplar { trace, nanoseconds, at_ms: 1_700_000_000_123 });
        let mut value = HistogramValue::default();
        value.add(&histogram);
        value.add_exemplars(&exemplars);
        let mut families = Vec::new();
        collect(TABLE, &value, &mut families);
        families
    }

    fn text(format: Exposition) -> String {
        String::from_utf8(format.encode(&families())).expect("text")
    }

    #[test]
    fn text_escapes_labels_and_has_no_exemplars() {
        expect![[r##"
            # HELP requests_total Requests.
            # TYPE requests_total counter
            requests_total{fsp="say \"hi\"\\\n"} 2
            requests_total{fsp="b"} 3
            # HELP position Position.
            # TYPE position gauge
            position{fsp="b"} -1.5001
            # HELP answer_seconds Time to the answer.
            # TYPE answer_seconds histogram
            answer_seconds_bucket{le="0.0001"} 1
            answer_seconds_bucket{le="0.00025"} 1
            answer_seconds_bucket{le="0.0005"} 1
            answer_seconds_bucket{le="0.001"} 1
            answer_seconds_bucket{le="0.0025"} 1
            answer_seconds_bucket{le="0.005"} 1
            answer_seconds_bucket{le="0.01"} 1
            answer_seconds_bucket{le="0.025"} 1
            answer_seconds_bucket{le="0.05"} 1
            answer_seconds_bucket{le="0.1"} 1
            answer_seconds_bucket{le="0.25"} 1
            answer_seconds_bucket{le="0.5"} 1
            answer_seconds_bucket{le="1"} 1
            answer_seconds_bucket{le="2"} 4
            answer_seconds_bucket{le="2.5"} 4
            answer_seconds_bucket{le="5"} 4
            answer_seconds_bucket{le="10"} 4
            answer_seconds_bucket{le="+Inf"} 4
            answer_seconds_sum 4.500090000
            answer_seconds_count 4
            # HELP cpu_seconds_total Time.
            # TYPE cpu_seconds_total counter
            cpu_seconds_total 1.500000000
            # HELP tx Payments.
            # TYPE tx histogram
            tx_bucket{le="0.01"} 1
            tx_bucket{le="0.05"} 1
            tx_bucket{le="0.1"} 1
            tx_bucket{le="0.5"} 1
            tx_bucket{le="1"} 1
            tx_bucket{le="2"} 4
            tx_bucket{le="5"} 4
            tx_bucket{le="+Inf"} 4
            tx_sum 4.500090000
            tx_count 4
            # HELP errorCount Errors.
            # TYPE errorCount counter
            errorCount 3
        "##]]
        .assert_eq(&text(Exposition::Text));
    }

    #[test]
    fn open_metrics_has_exemplars_and_an_end() {
        let text = text(Exposition::OpenMetrics);
        expect![[r##"
            # HELP requests Requests.
            # TYPE requests counter
            requests_total{fsp="say \"hi\"\\\n"} 2
            requests_total{fsp="b"} 3
            # HELP position Position.
            # TYPE position gauge
            position{fsp="b"} -1.5001
            # HELP answer_seconds Time to the answer.
            # TYPE answer_seconds histogram
            answer_seconds_bucket{le="0.0001"} 1
            answer_seconds_bucket{le="0.00025"} 1
            answer_seconds_bucket{le="0.0005"} 1
            answer_seconds_bucket{le="0.001"} 1
            answer_seconds_bucket{le="0.0025"} 1
            answer_seconds_bucket{le="0.005"} 1
            answer_seconds_bucket{le="0.01"} 1
            answer_seconds_bucket{le="0.025"} 1
            answer_seconds_bucket{le="0.05"} 1
            answer_seconds_bucket{le="0.1"} 1
            answer_seconds_bucket{le="0.25"} 1
            answer_seconds_bucket{le="0.5"} 1
            answer_seconds_bucket{le="1.0"} 1
            answer_seconds_bucket{le="2.0"} 4 # {trace_id="abababababababababababababababab"} 1.500000000 1700000000.123
            answer_seconds_bucket{le="2.5"} 4
            answer_seconds_bucket{le="5.0"} 4
            answer_seconds_bucket{le="10.0"} 4
            answer_seconds_bucket{le="+Inf"} 4
            answer_seconds_sum 4.500090000
            answer_seconds_count 4
            # HELP cpu_seconds Time.
            # TYPE cpu_seconds counter
            cpu_seconds_total 1.500000000
            # HELP tx Payments.
            # TYPE tx histogram
            tx_bucket{le="0.01"} 1
            tx_bucket{le="0.05"} 1
            tx_bucket{le="0.1"} 1
            tx_bucket{le="0.5"} 1
            tx_bucket{le="1"} 1
            tx_bucket{le="2"} 4
            tx_bucket{le="5"} 4
            tx_bucket{le="+Inf"} 4
            tx_sum 4.500090000
            tx_count 4
            # HELP errorCount Errors.
            # TYPE errorCount unknown
            errorCount 3
            # EOF
        "##]].assert_eq(&text);
    }

    #[test]
    fn protobuf_has_native_buckets() {
        let bytes = Exposition::Protobuf.encode(&families());
        expect!["715 bytes"].assert_eq(&format!("{} bytes", bytes.len()));
    }
}
