//! The text formats: Prometheus text 0.0.4 and OpenMetrics 1.0.

use std::fmt::{self, Display, Write};

use crate::exemplars::Exemplar;
use crate::family::{Family, HistogramValue, Labels, Number, Sample, Value};
use crate::histogram::{CLASSIC_BOUNDS, COARSE_BUCKETS};
use crate::table::{MetricFamily, MetricKind};

/// The two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    Prometheus,
    OpenMetrics,
}

/// Writes all families.
pub(crate) fn write(families: &[Family], format: TextFormat) -> String {
    let mut text = String::with_capacity(families.len() * 160);
    let mut writer = Writer { text: &mut text, format };
    families.iter().for_each(|family| writer.family(family).expect("memory takes all text"));
    if format == TextFormat::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

struct Writer<'a> {
    text: &'a mut String,
    format: TextFormat,
}

impl Writer<'_> {
    fn family(&mut self, Family { metric, samples }: &Family) -> fmt::Result {
        let (name, kind) = (self.family_name(metric), self.type_name(metric));
        writeln!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help)?;
        for Sample { labels, value } in samples {
            match value {
                Value::Number(number) => self.line((metric.name, ""), (labels, None), number)?,
                Value::Histogram(histogram) => self.histogram(metric, labels, histogram)?,
            }
            if matches!(value, Value::Number(_)) {
                self.text.push('\n');
            }
        }
        Ok(())
    }

    /// OpenMetrics names the family of a counter without its suffix.
    fn family_name(&self, metric: &MetricFamily) -> &'static str {
        let is_open = self.format == TextFormat::OpenMetrics;
        match metric.kind {
            MetricKind::Counter if is_open => metric.name.trim_end_matches("_total"),
            _ => metric.name,
        }
    }

    /// OpenMetrics knows no counter without the suffix `_total`.
    fn type_name(&self, metric: &MetricFamily) -> String {
        let is_open = self.format == TextFormat::OpenMetrics;
        match metric.kind {
            MetricKind::Counter if is_open && !metric.name.ends_with("_total") => "unknown".into(),
            kind => kind.to_string(),
        }
    }

    /// Writes a sample without the end of the line.
    fn line(
        &mut self,
        (name, suffix): (&str, &str),
        (labels, bound): (&Labels, Option<&str>),
        value: impl Display,
    ) -> fmt::Result {
        self.text.push_str(name);
        self.text.push_str(suffix);
        let bound = bound.map(|bound| ("le", bound));
        let own = labels.iter().map(|(name, value)| (*name, &**value));
        let mut separator = '{';
        for (name, value) in own.chain(bound) {
            write!(self.text, "{separator}{name}=\"{}\"", Escaped(value))?;
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        write!(self.text, " {value}")
    }

    fn histogram(
        &mut self,
        metric: &MetricFamily,
        labels: &Labels,
        value: &HistogramValue,
    ) -> fmt::Result {
        match metric.kind {
            MetricKind::CoarseHistogram => self.coarse_buckets(metric.name, labels, value)?,
            _ => self.buckets(metric.name, labels, value)?,
        }
        self.sum_and_count(metric.name, labels, value)
    }

    fn buckets(&mut self, name: &str, labels: &Labels, value: &HistogramValue) -> fmt::Result {
        let HistogramValue { distribution, exemplars } = value;
        let bounds = CLASSIC_BOUNDS.iter().map(|(_, text)| self.bound(text)).chain(["+Inf".into()]);
        let counts = distribution.classic().into_iter().chain([distribution.count()]);
        let bounds: Vec<String> = bounds.collect();
        for ((bound, count), exemplar) in bounds.iter().zip(counts).zip(exemplars) {
            self.line((name, "_bucket"), (labels, Some(bound)), count)?;
            self.exemplar(exemplar.as_ref())?;
            self.text.push('\n');
        }
        Ok(())
    }

    /// Boards of the reference match `le="1"`, so the bounds have no other form in OpenMetrics.
    fn coarse_buckets(
        &mut self,
        name: &str,
        labels: &Labels,
        value: &HistogramValue,
    ) -> fmt::Result {
        let counts = value.distribution.classic();
        let known = COARSE_BUCKETS.map(|at| (CLASSIC_BOUNDS[at].1, counts[at]));
        for (bound, count) in known.into_iter().chain([("+Inf", value.distribution.count())]) {
            self.line((name, "_bucket"), (labels, Some(bound)), count)?;
            self.text.push('\n');
        }
        Ok(())
    }

    fn sum_and_count(
        &mut self,
        name: &str,
        labels: &Labels,
        HistogramValue { distribution, .. }: &HistogramValue,
    ) -> fmt::Result {
        let sum = std::time::Duration::from_nanos(distribution.sum_ns());
        self.line((name, "_sum"), (labels, None), Number::Seconds(sum))?;
        self.text.push('\n');
        self.line((name, "_count"), (labels, None), distribution.count())?;
        self.text.push('\n');
        Ok(())
    }

    /// The text of a bound. OpenMetrics requires a fraction of whole seconds.
    fn bound(&self, text: &str) -> String {
        match self.format == TextFormat::OpenMetrics && !text.contains('.') {
            true => format!("{text}.0"),
            false => text.to_owned(),
        }
    }

    fn exemplar(&mut self, exemplar: Option<&Exemplar>) -> fmt::Result {
        let (TextFormat::OpenMetrics, Some(exemplar)) = (self.format, exemplar) else {
            return Ok(());
        };
        let trace = u128::from_be_bytes(exemplar.trace);
        let value = Number::Seconds(std::time::Duration::from_nanos(exemplar.nanoseconds));
        let (seconds, millis) = (exemplar.at_ms / 1_000, exemplar.at_ms % 1_000);
        write!(self.text, " # {{trace_id=\"{trace:032x}\"}} {value} {seconds}.{millis:03}")
    }
}

/// The value of a label, escaped.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
