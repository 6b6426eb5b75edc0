//! The rates of all scenarios as a chart: a row for each scenario, on a logarithmic axis.

use std::fmt::Write as _;

use super::SideTable;

const ROW: usize = 18;
const TOP: usize = 44;
/// Left edge and width of the axis.
const AXIS: (f64, f64) = (130.0, 440.0);
const TABLE_WIDTH: usize = 600;
/// The axis begins and ends at these powers of ten.
const DECADES: (i32, i32) = (1, 6);
/// Radius of a mark.
const RADIUS: f64 = 4.5;

/// Draws the tables next to each other.
pub(super) fn rates(tables: &[SideTable<'_>]) -> String {
    let rows = tables.iter().map(|table| table.rows.len()).max().unwrap_or(0);
    let (width, height) = (TABLE_WIDTH * tables.len(), TOP + ROW * rows + 12);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (at, table) in tables.iter().enumerate() {
        let left = at * TABLE_WIDTH;
        writeln!(svg, "<g transform=\"translate({left} 0)\">").expect("text can be extended");
        draw(table, &mut svg).expect("text can be extended");
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

fn draw(table: &SideTable<'_>, svg: &mut String) -> std::fmt::Result {
    let bottom = TOP + ROW * table.rows.len();
    writeln!(
        svg,
        "<text x=\"8\" y=\"16\" font-weight=\"bold\">{}, messages a second</text>\n\
         <text x=\"240\" y=\"16\"><tspan fill=\"#0a6\">● crate stream</tspan> \
         <tspan fill=\"#c50\">○ reference, same broker</tspan> \
         <tspan fill=\"#555\">× published</tspan></text>",
        table.heading
    )?;
    for decade in DECADES.0..=DECADES.1 {
        let x = place(10_f64.powi(decade));
        writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"36\" text-anchor=\"middle\" fill=\"#555\">10<tspan \
             dy=\"-4\" font-size=\"8\">{decade}</tspan></text>"
        )?;
    }
    for (at, row) in table.rows.iter().enumerate() {
        let y = (TOP + ROW * at + ROW / 2) as f64;
        writeln!(svg, "<text x=\"8\" y=\"{:.1}\">{}</text>", y + 4.0, row.name)?;
        if let Some(published) = (table.published)(&row.published) {
            let x = place(f64::from(published));
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">×</text>",
                y + 4.0
            )?;
        }
        if let Some(reference) = row.reference.as_ref().map(table.reference) {
            mark(svg, (reference.per_s, y), "fill=\"none\" stroke=\"#c50\" stroke-width=\"1.5\"")?;
        }
        mark(svg, ((table.ours)(&row.played).per_s, y), "fill=\"#0a6\"")?;
    }
    Ok(())
}

fn mark(svg: &mut String, (rate, y): (f64, f64), style: &str) -> std::fmt::Result {
    writeln!(svg, "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\" {style}/>", place(rate))
}

/// The horizontal place of a rate.
fn place(rate: f64) -> f64 {
    let (first, last) = (f64::from(DECADES.0), f64::from(DECADES.1));
    AXIS.0 + AXIS.1 * (rate.max(1.0).log10().clamp(first, last) - first) / (last - first)
}
