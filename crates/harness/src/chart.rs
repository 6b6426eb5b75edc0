//! Charts as SVG text: lines, stacked bars and histograms, made for measurements. Nothing is
//! fetched and no script runs; what a chart shows also stands in it as text.
//!
//! A chart draws at most 24 series, told apart by colour and dashes, and says how many
//! more there are; a long series is thinned to [`POINTS_MAX`] points by keeping the lowest and the
//! highest of each stretch, so that neither a stall nor a peak is ever lost. A series of a single
//! point is a dot.

use std::fmt::Write;

use crate::bench_report::Bucket;

/// Points drawn per series.
const POINTS_MAX: usize = 1_200;
/// Lines of the same colour: whole, dashed, dotted.
const DASHES: [&str; 3] = ["none", "9 4", "2 3"];
const COLOURS: [&str; 8] =
    ["#1f6fb4", "#d1495b", "#2a9d64", "#8b5fbf", "#c07a1a", "#3aa6b9", "#7a7a7a", "#a33ea1"];
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
const BAR: f64 = 24.0;

/// Lines over a common axis.
pub(crate) struct Lines<'a> {
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) x_axis: Axis,
    pub(crate) series: Vec<Series>,
}

/// One line.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// How values stand along the lower edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Evenly, from 0.
    Linear,
    /// Quantiles from 0 to below 1, each nine as far from the last.
    Nines,
}

/// One bar of stacked parts.
pub(crate) struct Bar {
    pub(crate) name: String,
    /// Name and length of each part.
    pub(crate) parts: Vec<(&'static str, f64)>,
}

impl Lines<'_> {
    /// The chart; empty text when there is nothing to draw.
    pub(crate) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x_max = points().map(|&(x, _)| self.x_axis.place(x)).fold(0.0, f64::max);
        let y_max = points().map(|&(_, y)| y).fold(0.0, f64::max);
        if x_max <= 0.0 || y_max <= 0.0 {
            return String::new();
        }
        let step = step(y_max);
        let y_max = (y_max / step).ceil() * step;
        let x = |value: f64| LEFT + self.x_axis.place(value) / x_max * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / y_max * (HEIGHT - TOP - BOTTOM);
        let mut svg = open(HEIGHT);
        let mut tick = 0.0;
        while tick <= y_max + step / 2.0 {
            let at = y(tick);
            line(&mut svg, "grid", (LEFT, at), (WIDTH - RIGHT, at));
            text(&mut svg, "end", (LEFT - 6.0, at + 4.0), &number(tick));
            tick += step;
        }
        for (value, label) in self.x_axis.ticks(x_max) {
            line(&mut svg, "grid", (x(value), TOP), (x(value), HEIGHT - BOTTOM));
            text(&mut svg, "middle", (x(value), HEIGHT - BOTTOM + 16.0), &label);
        }
        text(&mut svg, "middle", (WIDTH / 2.0, HEIGHT - 8.0), self.x_label);
        let _ = write!(
            svg,
            "<text class=\"label\" text-anchor=\"middle\" \
             transform=\"translate(14 {}) rotate(-90)\">{}</text>",
            HEIGHT / 2.0,
            escape(self.y_label)
        );
        for (series, stroke) in self.series.iter().zip(strokes()) {
            let thin = thinned(&series.points);
            let places: Vec<_> = thin.iter().map(|&(a, b)| (x(a), y(b))).collect();
            draw_series(&mut svg, &escape(&series.name), stroke, &places);
        }
        svg + "</svg>" + &legend(self.series.iter().map(|series| &*series.name))
    }
}

/// How many units took how long: a bar for each stretch of time, each as wide as the others, so
/// that their edges grow by the same factor.
pub(crate) fn histogram(buckets: &[Bucket], unit: &str) -> String {
    let most = buckets.iter().map(|bucket| bucket.units).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let (mut svg, bottom) = (open(HEIGHT), HEIGHT - BOTTOM);
    let width = (WIDTH - LEFT - RIGHT) / buckets.len() as f64;
    let step = step(most as f64);
    let top = (most as f64 / step).ceil() * step;
    let y = |value: f64| bottom - value / top * (bottom - TOP);
    for tick in 0..=(top / step).round() as u32 {
        let at = f64::from(tick) * step;
        line(&mut svg, "grid", (LEFT, y(at)), (WIDTH - RIGHT, y(at)));
        text(&mut svg, "end", (LEFT - 6.0, y(at) + 4.0), &number(at));
    }
    // As many labels as have room.
    let apart = buckets.len().div_ceil(12);
    for (index, bucket) in buckets.iter().enumerate() {
        let left = LEFT + index as f64 * width;
        let above = y(bucket.units as f64);
        let _ = write!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{above:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             fill=\"{}\"><title>{} to {} {}: {}</title></rect>",
            (width - 1.0).max(0.5),
            bottom - above,
            COLOURS[0],
            number(bucket.from_ms),
            number(bucket.to_ms),
            escape(unit),
            bucket.units
        );
        if index.is_multiple_of(apart) {
            text(&mut svg, "middle", (left, bottom + 16.0), &number(bucket.from_ms));
        }
    }
    text(&mut svg, "middle", (WIDTH / 2.0, HEIGHT - 8.0), unit);
    svg + "</svg>"
}

/// Bars below each other, parts in the same order and colour everywhere.
pub(crate) fn bars(bars: &[Bar], unit: &str) -> String {
    let total = |bar: &Bar| bar.parts.iter().map(|part| part.1).sum::<f64>();
    let longest = bars.iter().map(total).fold(0.0, f64::max);
    let Some(first) = bars.first().filter(|_| longest > 0.0) else { return String::new() };
    let left = 3.0 * LEFT;
    let scale = (WIDTH - left - 2.0 * LEFT) / longest;
    let mut svg = open(TOP + bars.len() as f64 * (BAR + 8.0));
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + index as f64 * (BAR + 8.0);
        text(&mut svg, "end", (left - 8.0, top + 16.0), &bar.name);
        let mut at = left;
        for (&(name, length), colour) in bar.parts.iter().zip(COLOURS) {
            let width = length * scale;
            let _ = write!(
                svg,
                "<rect x=\"{at:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\" \
                 fill=\"{colour}\"><title>{}: {} {}</title></rect>",
                escape(name),
                number(length),
                escape(unit)
            );
            at += width;
        }
        let lengths: Vec<String> = bar.parts.iter().map(|part| number(part.1)).collect();
        text(&mut svg, "start", (at + 6.0, top + 16.0), &format!("{} {unit}", lengths.join(" + ")));
    }
    svg + "</svg>" + &legend(first.parts.iter().map(|part| part.0))
}

/// Text that is safe inside HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// A number with as many digits as a reader needs.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

impl Axis {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            // The last point of a distribution is 1, which has no place here.
            Self::Nines => -(1.0 - value).max(1e-6).log10(),
        }
    }

    fn ticks(self, max: f64) -> Vec<(f64, String)> {
        match self {
            Self::Linear => {
                let step = step(max);
                let count = (max / step).floor() as u32;
                (0..=count).map(|tick| f64::from(tick) * step).map(|at| (at, number(at))).collect()
            }
            Self::Nines => {
                let all = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
                let within = all.into_iter().filter(|&at| self.place(at) <= max);
                within.map(|at| (at, format!("{}%", (at * 1e7).round() / 1e5))).collect()
            }
        }
    }
}

/// A round distance that divides `max` into five to ten parts.
fn step(max: f64) -> f64 {
    let power = 10_f64.powf((max / 5.0).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fits = factors.into_iter().find(|factor| max / (factor * power) <= 8.0);
    fits.unwrap_or(10.0) * power
}

/// Colour and dashes of each series.
fn strokes() -> impl Iterator<Item = (&'static str, &'static str)> {
    DASHES.into_iter().flat_map(|dash| COLOURS.into_iter().map(move |colour| (colour, dash)))
}

fn draw_series(svg: &mut String, name: &str, (colour, dash): (&str, &str), places: &[(f64, f64)]) {
    if let [(x, y)] = places {
        let _ = write!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"><title>{name}\
             </title></circle>"
        );
        return;
    }
    let drawn: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = write!(
        svg,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" \
         stroke-dasharray=\"{dash}\" points=\"{}\"><title>{name}</title></polyline>",
        drawn.join(" ")
    );
}

/// Of each stretch the lowest and the highest, in their order.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(POINTS_MAX / 2);
    let extremes = |part: &[(f64, f64)]| {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends = [part.iter().min_by(by_height), part.iter().max_by(by_height)];
        let mut ends = ends.map(|end| end.copied().unwrap_or_default());
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    };
    points.chunks(stretch).flat_map(extremes).collect()
}

fn open(height: f64) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">"#)
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = write!(
        svg,
        r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, anchor: &str, at: (f64, f64), content: &str) {
    let _ = write!(
        svg,
        r#"<text class="label" text-anchor="{anchor}" x="{:.1}" y="{:.1}">{}</text>"#,
        at.0,
        at.1,
        escape(content)
    );
}

fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.peekable();
    let mut entries = String::new();
    for (colour, dash) in strokes() {
        let Some(name) = names.next() else { break };
        let name = escape(name);
        let _ = write!(
            entries,
            "<span><svg class=\"key\" viewBox=\"0 0 24 8\"><line x1=\"0\" y1=\"4\" x2=\"24\" \
             y2=\"4\" stroke=\"{colour}\" stroke-width=\"6\" stroke-dasharray=\"{dash}\"/></svg>\
             {name}</span>"
        );
    }
    if names.peek().is_some() {
        let _ = write!(entries, "<span>and {} more, not drawn</span>", names.count());
    }
    format!(r#"<p class="legend">{entries}</p>"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps() {
        for (max, expected) in [(7.0, 1.0), (10.0, 2.0), (4_300.0, 1_000.0), (0.013, 0.002)] {
            let found = step(max);
            assert!((found - expected).abs() < expected * 1e-9, "{max}: {found}");
        }
        let nines: Vec<_> = Axis::Nines.ticks(3.5).into_iter().map(|tick| tick.1).collect();
        assert_eq!(nines, ["0%", "50%", "90%", "99%", "99.9%"]);
    }

    #[test]
    fn thinning_keeps_peaks_and_names_are_made_safe() {
        let mut points: Vec<_> = (0..5_000).map(|at| (f64::from(at), 1.0)).collect();
        (points[777].1, points[3_333].1) = (9.0, 0.0);
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS_MAX && thin.contains(&(777.0, 9.0)));
        assert!(thin.contains(&(3_333.0, 0.0)), "a stall shows as well as a peak");
        assert!(thin.windows(2).all(|pair| pair[0].0 <= pair[1].0), "they stay in order");
        let chart = Lines {
            x_label: "s",
            y_label: "<b>",
            x_axis: Axis::Linear,
            series: vec![Series { name: "a&b".to_owned(), points }],
        };
        let svg = chart.svg();
        assert!(svg.contains("&lt;b&gt;") && svg.contains("a&amp;b") && !svg.contains("<b>"));
    }

    #[test]
    fn no_series_goes_unseen() {
        let series = |count: usize| {
            let one = |at: usize| Series { name: format!("run {at}."), points: vec![(0.5, 1.0)] };
            let series = (0..count).map(one).collect();
            Lines { x_label: "", y_label: "", x_axis: Axis::Linear, series }.svg()
        };
        assert_eq!(series(9).matches("<circle").count(), 9, "a single point is a dot");
        assert!(series(9).contains("run 8.</span>"));
        let many = series(COLOURS.len() * DASHES.len() + 2);
        assert!(many.contains("and 2 more, not drawn"), "{many}");
    }

    #[test]
    fn a_histogram_has_a_bar_for_each_stretch() {
        let bucket = |from_ms: f64, units| Bucket { from_ms, to_ms: 2.0 * from_ms, units };
        let svg = histogram(&[bucket(1.0, 5), bucket(2.0, 0), bucket(4.0, 20)], "milliseconds");
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("4.00 to 8.00 milliseconds: 20"), "{svg}");
        assert_eq!(histogram(&[], "milliseconds"), "");
    }

    #[test]
    fn nothing_to_draw_is_no_chart() {
        let chart = Lines { x_label: "", y_label: "", x_axis: Axis::Linear, series: Vec::new() };
        assert_eq!(chart.svg(), "");
        assert_eq!(bars(&[], "ms"), "");
    }
}
