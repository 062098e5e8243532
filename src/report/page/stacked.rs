//! Stacked horizontal bars. Parts have the same order and colour in every bar; a legend names them.

use super::chart::COLOURS;
use super::markup::escape;

const WIDTH: f64 = 480.0;
const ROW: f64 = 46.0;
const BAR: f64 = 20.0;
/// Approximate width of a letter.
const LETTER: f64 = 7.0;

/// A chart of stacked bars.
#[derive(Clone, Debug)]
pub struct StackedBars {
    /// Anchor of letters, digits and hyphens, unique on the page.
    pub id: String,
    /// What the bars show, with its unit.
    pub title: String,
    /// Names of the parts.
    pub parts: Vec<String>,
    /// The bars: name, text behind the bar, values of the parts.
    pub bars: Vec<(String, String, Vec<f64>)>,
}

impl StackedBars {
    /// The SVG figure; `None` if all bars are empty.
    pub fn render(&self) -> Option<String> {
        let sum = |parts: &[f64]| parts.iter().filter(|part| part.is_finite()).sum::<f64>();
        let most = self.bars.iter().map(|(_, _, parts)| sum(parts)).fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        let (id, title) = (&self.id, escape(&self.title));
        let height = ROW * self.bars.len() as f64;
        let mut svg = String::new();
        for (at, (name, total, parts)) in self.bars.iter().enumerate() {
            let top = ROW * at as f64;
            svg += &format!(
                "<text class=\"label\" x=\"0\" y=\"{:.1}\">{}</text>\n<text class=\"end\" \
                 x=\"{WIDTH}\" y=\"{:.1}\">{}</text>\n",
                top + 14.0,
                escape(name),
                top + 14.0,
                escape(total)
            );
            let mut left = 0.0;
            for (part, value) in parts.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                let width = WIDTH * value / most;
                let share = format!("{:.0} %", 100.0 * value / sum(parts));
                let part_name = escape(self.parts.get(part).map_or("", String::as_str));
                let y = top + 20.0;
                svg += &format!(
                    "<rect class=\"part s{}\" data-part=\"{part_name}\" x=\"{left:.1}\" \
                     y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"><title>{part_name}: \
                     {share}</title></rect>\n",
                    part % COLOURS
                );
                if width > LETTER * share.chars().count() as f64 + 6.0 {
                    svg += &format!(
                        "<text class=\"in\" x=\"{:.1}\" y=\"{:.1}\">{share}</text>\n",
                        left + width / 2.0,
                        y + 14.5
                    );
                }
                left += width;
            }
        }
        let legend: String = self
            .parts
            .iter()
            .enumerate()
            .map(|(part, name)| {
                format!(
                    "<li><span class=\"swatch s{}\"></span>{}</li>",
                    part % COLOURS,
                    escape(name)
                )
            })
            .collect();
        let described: Vec<String> =
            self.bars.iter().map(|(name, total, _)| format!("{name}: {total}")).collect();
        let description = escape(&described.join("; "));
        Some(format!(
            "<figure id=\"{id}\" class=\"bars\">\n<figcaption>{title}</figcaption>\n<ul \
             class=\"legend\">{legend}</ul>\n\
             <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-title \
             {id}-desc\">\n\
             <title id=\"{id}-title\">{title}</title>\n<desc \
             id=\"{id}-desc\">{description}</desc>\n{svg}</svg>\n</figure>\n"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_their_bar() {
        let bars = |values: [f64; 2]| StackedBars {
            id: "time".into(),
            title: "Time, seconds".into(),
            parts: vec!["forward".into(), "adjoint".into()],
            bars: vec![("run".into(), "4 s".into(), values.to_vec())],
        };
        let svg = bars([3.0, 1.0]).render().unwrap();
        assert!(
            svg.contains("data-part=\"forward\" x=\"0.0\" y=\"20.0\" width=\"360.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("data-part=\"adjoint\" x=\"360.0\" y=\"20.0\" width=\"120.0\""),
            "{svg}"
        );
        assert!(svg.contains(">75 %</text>") && svg.contains("run: 4 s"));
        assert!(bars([0.0, f64::NAN]).render().is_none());
    }
}
