//! One waterfall as SVG: a row per event, its bar where its time lies (pale if it does not count),
//! hatched columns where nobody worked with a row of their own, a grey row for each wait, and the
//! figures below.

use std::fmt::Write;

use crate::{Event, Figures, Kind, Unit, figures, gaps};

/// Width of the picture, pixels.
const WIDTH: f64 = 1_280.0;
/// Width that the whole time takes.
const BARS: f64 = 820.0;
/// Where bars begin.
const LEFT: f64 = 300.0;
/// Height of a row.
const ROW: f64 = 20.0;
/// Colours of groups, by order of appearance: told apart also without colour vision.
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a6a00", "#555555"];

/// Of what waited; no group has it.
const WAITING: &str = "#bbbbbb";

/// How a waterfall is drawn.
#[derive(Clone, Debug)]
pub struct Style {
    /// What times count.
    pub unit: Unit,
    /// Colours of events whose label begins with a text (see [`Event::begins_with`]), the first
    /// that fits; one without a text is for all others. Else it is the colour of its group.
    pub colours: Vec<(String, String)>,
}

/// Draws events that are in order; a complete SVG document.
#[must_use]
pub fn draw(events: &[Event], style: &Style) -> String {
    let sums = figures(events);
    let gaps = gaps(events);
    let (waits, others): (Vec<_>, Vec<_>) =
        events.iter().partition(|event| event.kind == Kind::Wait);
    let above = others.len() + usize::from(!gaps.is_empty());
    let rows = above + waits.len();
    let height = ROW * (rows as f64 + 2.0);
    let first = others.first().map_or(0, |first| first.start);
    let place = |at: u64| LEFT + BARS * at.saturating_sub(first) as f64 / sums.total.max(1) as f64;
    let mut svg = String::new();
    let _written = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"12\"><defs><pattern id=\"gap\" width=\"6\" height=\"6\" \
         patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"2\" \
         height=\"6\" fill=\"#ddd\"/></pattern></defs>"
    );
    let places = gaps.iter().map(|&(start, end)| (place(start), place(end), end - start));
    draw_gaps(&mut svg, ROW * above as f64, places, style);
    let mut groups = Groups::default();
    let placed = others.into_iter().enumerate();
    for (row, event) in placed.chain((above..).zip(waits)) {
        let colour = colour(event, style, &mut groups);
        draw_event(&mut svg, row, event, &colour, (place(event.start), place(event.end)), style);
    }
    let below = ROW * (rows as f64 + 1.3);
    let _written = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{below}\" font-weight=\"bold\">{}</text></svg>",
        summary(&sums, style.unit)
    );
    svg
}

/// `N Events / S Sum / T Total / G Gap`.
#[must_use]
pub fn summary(sums: &Figures, unit: Unit) -> String {
    format!(
        "{} Event{} / {} Sum / {} Total / {} Gap",
        sums.events,
        if sums.events == 1 { "" } else { "s" },
        unit.show(sums.sum),
        unit.show(sums.total),
        unit.show(sums.gap())
    )
}

/// A text with what is special in XML replaced.
#[must_use]
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Not allowed in XML at all.
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Colours given to groups so far; a group is what stands before the colon of a label.
#[derive(Debug, Default)]
pub(crate) struct Groups(Vec<String>);

impl Groups {
    pub(crate) fn colour(&mut self, label: &str) -> &'static str {
        let group = label.split(':').next().unwrap_or(label);
        let at = self.0.iter().position(|known| known == group).unwrap_or_else(|| {
            self.0.push(group.to_owned());
            self.0.len() - 1
        });
        COLOURS[at % COLOURS.len()]
    }
}

fn colour(event: &Event, style: &Style, groups: &mut Groups) -> String {
    let all = || style.colours.iter().rev().find(|(prefix, _)| prefix.is_empty());
    let fits = |prefix: &str| !prefix.is_empty() && event.begins_with(prefix);
    let chosen = style.colours.iter().find(|(prefix, _)| fits(prefix));
    match (chosen.or_else(all), event.kind) {
        (_, Kind::Wait) => WAITING.to_owned(),
        (Some((_, colour)), _) => escape(colour),
        (None, _) => groups.colour(&event.label).to_owned(),
    }
}

/// How solid a bar is: what does not count is pale.
pub(crate) fn opacity(event: &Event) -> &'static str {
    if event.kind == Kind::LeftOut { "0.4" } else { "1" }
}

/// Columns down to the row below the events, which says what they are.
fn draw_gaps(
    svg: &mut String,
    bottom: f64,
    gaps: impl ExactSizeIterator<Item = (f64, f64, u64)>,
    style: &Style,
) {
    if gaps.len() > 0 {
        let (right, text) = (LEFT - 8.0, bottom - ROW + 14.0);
        let _written = write!(
            svg,
            "<text x=\"{right:.1}\" y=\"{text}\" text-anchor=\"end\">gap: nobody worked</text>"
        );
    }
    for (from, to, time) in gaps {
        let (width, elapsed) = ((to - from).max(1.0), style.unit.show(time));
        let _written = write!(
            svg,
            "<rect x=\"{from:.1}\" y=\"0\" width=\"{width:.1}\" height=\"{bottom}\" \
             fill=\"url(#gap)\"><title>gap: nobody worked for {elapsed}</title></rect>"
        );
    }
}

fn draw_event(
    svg: &mut String,
    row: usize,
    event: &Event,
    colour: &str,
    (from, to): (f64, f64),
    style: &Style,
) {
    let top = ROW * row as f64;
    let text = top + 14.0;
    let width = (to - from).max(1.0);
    let elapsed = style.unit.show(event.end - event.start);
    // To the right of the bar, unless it reaches the edge.
    let (beside, anchor) = match to < WIDTH - 90.0 {
        true => (from + width + 4.0, "start"),
        false => (from - 4.0, "end"),
    };
    let _written = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{text}\" text-anchor=\"end\">{}</text>\
         <rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"14\" fill=\"{colour}\" \
         fill-opacity=\"{}\"/>\
         <text x=\"{beside:.1}\" y=\"{text}\" text-anchor=\"{anchor}\" fill=\"#333\">\
         {elapsed}</text>",
        LEFT - 8.0,
        escape(&event.label),
        top + 3.0,
        opacity(event),
    );
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_row_a_gap_and_the_figures() {
        let events = [Event::new(0, 5, "a <b>: x"), Event::new(10, 20, "c")];
        let style = Style {
            unit: Unit::Milliseconds,
            colours: vec![("c".to_owned(), "#123456".to_owned())],
        };
        let svg = draw(&events, &style);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"));
        for part in [
            "gap: nobody worked</text>",
            "gap: nobody worked for 5 ms",
            "a &lt;b&gt;: x",
            "fill=\"#123456\"",
            "<rect x=\"300.0\" y=\"3.0\" width=\"205.0\"",
            "<rect x=\"710.0\" y=\"23.0\" width=\"410.0\"",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        expect!["2 Events / 15 ms Sum / 20 ms Total / 5 ms Gap"]
            .assert_eq(&summary(&figures(&events), Unit::Milliseconds));
    }

    /// What is left out keeps its row, and a wait has one below the gaps; neither counts.
    #[test]
    fn what_does_not_count_is_drawn_apart() {
        let events = [
            Event { kind: Kind::LeftOut, ..Event::new(0, 20, "Whole") },
            Event::new(0, 5, "a"),
            Event { kind: Kind::Wait, ..Event::new(5, 10, "a: wait") },
            Event::new(10, 20, "b"),
        ];
        let colours = [("", "#111"), ("WHO", "#123456"), ("", "#222")];
        let owned = colours.map(|(prefix, colour)| (prefix.to_owned(), colour.to_owned()));
        let svg = draw(&events, &Style { unit: Unit::Milliseconds, colours: owned.to_vec() });
        for part in [
            "y=\"3.0\" width=\"820.0\" height=\"14\" fill=\"#123456\" fill-opacity=\"0.4\"",
            "y=\"43.0\" width=\"410.0\" height=\"14\" fill=\"#222\" fill-opacity=\"1\"",
            "y=\"74\" text-anchor=\"end\">gap: nobody worked",
            "y=\"83.0\" width=\"205.0\" height=\"14\" fill=\"#bbbbbb\"",
            "2 Events / 15 ms Sum / 20 ms Total / 5 ms Gap",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn nothing_is_a_picture_too() {
        let svg = draw(&[], &Style { unit: Unit::Nanoseconds, colours: Vec::new() });
        assert!(svg.contains("0 Events"));
    }
}
