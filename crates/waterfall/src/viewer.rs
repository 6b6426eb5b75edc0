//! The page that shows results: their JSON, and the viewer that draws it in a browser. The page
//! makes no requests.

use serde::Serialize;

const VIEWER: &str = include_str!("viewer.html");

/// The data of a page, and the name of the viewer's function that draws it.
#[derive(Serialize)]
struct Viewed<'a, D> {
    view: &'a str,
    #[serde(flatten)]
    data: &'a D,
}

/// The page of `data`, drawn by the viewer's function `view`.
///
/// # Panics
///
/// The data is not an object of plain members.
#[must_use]
pub fn page(view: &str, data: &impl Serialize) -> String {
    let json = serde_json::to_string(&Viewed { view, data }).expect("data has only plain members");
    // Escaped, so that no text of the data ends the element that contains it.
    VIEWER.replacen("DATA", &json.replace('<', "\\u003c"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_stays_within_its_element() {
        #[derive(Serialize)]
        struct Data {
            title: &'static str,
        }
        let title = "a</script><script>alert(1)//";
        let page = page("waterfall", &Data { title });
        let begin = page.find("id=\"data\">").expect("an element for data") + 10;
        let (json, _) = page[begin..].split_once("</script>").expect("the element ends");
        let read: serde_json::Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(read, serde_json::json!({"view": "waterfall", "title": title}));
    }
}
