//! The mapper of the example, without a database.
//!
//!     cargo test -p anabranch --test xml_conversion

#![allow(unreachable_pub, dead_code, reason = "the example is only borrowed")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod application;
mod contract;
mod document;
mod flaw;
mod kind;
mod mapper;
mod path;
mod pen;

use anabranch::Value;
use application::Application;
use contract::Contract;
use flaw::{Flaw, make};
use mapper::{MappedRow, Mapper};

const MAPPING: &str = include_str!("mapping.toml");

/// A contract for documents like `<o:order xmlns:o="urn:o">…`.
const SMALL: &str = r#"
key = "document"
number = "number"
namespace = "urn:o"
unknown = "fail"
ignore = ["/order/internal", "/order/@x:hint"]

[namespaces]
x = "urn:x"

[limits]
bytes = 4_000
depth = 5
elements = 20
text = 100

[[tables]]
name = "orders"
rows = "/order"
columns = [
    { name = "id", path = "@id", type = "integer", required = true },
    { name = "total", path = "total", type = "decimal", scale = 2 },
    { name = "placed", path = "placed", type = "date" },
    { name = "gift", path = "gift", type = "boolean", default = "false" },
    { name = "note", path = "x:note", type = "text", max = 12 },
    { name = "raw", path = "raw", type = "text", space = "keep" },
]

[[tables]]
name = "lines"
rows = "/order/line"
max = 3
parent = "order_number"
columns = [
    { name = "item", path = ".", type = "text", required = true },
    { name = "pieces", path = "@pieces", type = "integer", default = "1" },
]
"#;

fn small() -> Mapper {
    Mapper::new(Contract::parse(SMALL).unwrap())
}

/// An order with this inside.
fn order(inside: &str) -> String {
    format!("<order xmlns=\"urn:o\" xmlns:x=\"urn:x\" id=\"7\">{inside}</order>")
}

fn rows(inside: &str) -> Vec<MappedRow> {
    small().map(&order(inside)).unwrap_or_else(|refused| panic!("{inside}: {refused}"))
}

/// The columns of the order itself, after its number.
fn values(inside: &str) -> Vec<Value> {
    rows(inside)[0].values[1..].to_vec()
}

fn refusal(inside: &str) -> String {
    reason(&order(inside))
}

fn reason(xml: &str) -> String {
    small().map(xml).expect_err(xml).to_string()
}

fn text(text: &str) -> Value {
    Value::from(text)
}

#[test]
fn each_type_is_read() {
    let null = || Value::Null;
    assert_eq!(
        values(
            "<total> +0012.50\n</total><placed>2024-02-29</placed><gift>1</gift>\
             <x:note> a\n  b\tc </x:note><raw>\n a\r\n  b </raw>"
        ),
        [7.into(), text("12.50"), text("2024-02-29"), true.into(), text("a b c"), text("a\n  b")]
    );
    assert_eq!(values(""), [7.into(), null(), null(), false.into(), null(), null()]);
    assert_eq!(values("<total/><placed> </placed><gift></gift>"), values(""));
    for (written, read) in [("-.5", "-0.5"), ("0", "0"), ("7.", "7"), ("00.10", "0.10")] {
        assert_eq!(values(&format!("<total>{written}</total>"))[1], text(read), "{written}");
    }
}

#[test]
fn what_is_not_of_the_type_is_refused_with_path_and_value() {
    let cases = [
        ("<total>12,50</total>", "/order/total: \"12,50\" is not a decimal number"),
        ("<total>1e3</total>", "/order/total: \"1e3\" is not a decimal number"),
        ("<total>.</total>", "/order/total: \".\" is not a decimal number"),
        ("<total>NaN</total>", "/order/total: \"NaN\" is not a decimal number"),
        (
            "<total>1.005</total>",
            "/order/total: \"1.005\" has 3 digits after the point, more than 2",
        ),
        ("<placed>31.02.1990</placed>", "/order/placed: \"31.02.1990\" is not a date (YYYY-MM-DD)"),
        ("<placed>2023-02-29</placed>", "/order/placed: \"2023-02-29\" is not a date (YYYY-MM-DD)"),
        ("<placed>2023-2-9</placed>", "/order/placed: \"2023-2-9\" is not a date (YYYY-MM-DD)"),
        ("<placed>20230209T1</placed>", "/order/placed: \"20230209T1\" is not a date (YYYY-MM-DD)"),
        ("<gift>yes</gift>", "/order/gift: \"yes\" is not true or false"),
        ("<line pieces=\"two\">a</line>", "/order/line/@pieces: \"two\" is not a whole number"),
        (
            "<line pieces=\"9223372036854775808\">a</line>",
            "/order/line/@pieces: \"9223372036854775808\" is not a whole number",
        ),
        (
            "<x:note>thirteen long</x:note>",
            "/order/x:note: \"thirteen long\" has 13 characters, more than 12",
        ),
    ];
    for (inside, reason) in cases {
        assert_eq!(refusal(inside), reason);
    }
    let long = refusal(&format!("<gift>{}</gift>", "x".repeat(90)));
    assert_eq!(long, format!("/order/gift: \"{}…\" is not true or false", "x".repeat(40)));
}

#[test]
fn rows_repeat_and_know_the_row_around_them() {
    let rows = rows("<line>a</line><line pieces=\"3\">b</line>");
    let line = |values: [Value; 4]| MappedRow { table: 1, values: values.into() };
    assert_eq!(rows[0].table, 0);
    assert_eq!(rows[1], line([1.into(), 1.into(), text("a"), 1.into()]));
    assert_eq!(rows[2], line([2.into(), 1.into(), text("b"), 3.into()]));

    assert_eq!(refusal("<line>a</line><line/>"), "/order/line[2]: is empty");
    assert_eq!(refusal(&"<line>a</line>".repeat(4)), "/order/line[4]: is more than the 3 allowed");
    assert_eq!(
        refusal("<total>1</total><total>1</total>"),
        "/order/total[2]: is there more than once"
    );
}

#[test]
fn what_is_required_must_be_there() {
    assert_eq!(reason("<order xmlns=\"urn:o\"/>"), "/order/@id: is missing");
    assert_eq!(reason("<order xmlns=\"urn:o\" id=\" \"/>"), "/order/@id: is empty");
    let contract = SMALL.replace("max = 3", "min = 2");
    let mapper = Mapper::new(Contract::parse(&contract).unwrap());
    let refused = mapper.map(&order("<line>a</line>")).unwrap_err().to_string();
    assert_eq!(refused, "/order/line: is there 1 times, and at least 2 is required");
}

/// The prefix is the document's own affair; the namespace counts.
#[test]
fn namespaces_are_compared_and_prefixes_are_not() {
    let other = "<q:order xmlns:q=\"urn:o\" xmlns:z=\"urn:x\" id=\"7\">\
                 <q:total>1</q:total><note xmlns=\"urn:x\">n</note></q:order>";
    let rows = small().map(other).unwrap();
    assert_eq!((&rows[0].values[2], &rows[0].values[5]), (&text("1"), &text("n")));

    assert_eq!(refusal("<note>n</note>"), "/order/note: is not in the contract");
    assert_eq!(refusal("<x:total>1</x:total>"), "/order/x:total: is not in the contract");
    assert_eq!(reason("<order id=\"7\"/>"), "/{}order: is not in the contract");
    assert_eq!(reason("<order xmlns=\"urn:q\"/>"), "/{urn:q}order: is not in the contract");
    let prefix = "/order: not well-formed: the prefix \"y\" is not declared";
    assert_eq!(refusal("<y:note>n</y:note>"), prefix);
    assert_eq!(
        refusal("<line x:pieces=\"2\">a</line>"),
        "/order/line/@x:pieces: is not in the contract"
    );
}

#[test]
fn unknown_things_fail_or_are_ignored() {
    assert_eq!(refusal("<odd/>"), "/order/odd: is not in the contract");
    assert_eq!(refusal("<total odd=\"1\">1</total>"), "/order/total/@odd: is not in the contract");
    assert_eq!(refusal("stray"), "/order: has text, which is not in the contract");
    assert_eq!(values("<internal a=\"1\">b<total>9</total></internal>"), values(""));
    assert_eq!(values("<total xml:lang=\"en\">1</total>"), values("<total>1</total>"));

    let contract = SMALL.replace("\"fail\"", "\"ignore\"");
    let mapper = Mapper::new(Contract::parse(&contract).unwrap());
    let ignored = order("stray<odd a=\"1\"><total>9</total></odd><total odd=\"1\">1</total>");
    assert_eq!(mapper.map(&ignored).unwrap(), rows("<total>1</total>"));
    let refused = mapper.map("<other/>").unwrap_err().to_string();
    assert_eq!(refused, "/{}other: is not in the contract");
}

#[test]
fn text_is_put_together_from_its_pieces() {
    let note = "<x:note>a &lt;<!-- c --><![CDATA[&lt;]]>&#66;&#x43;<?p?>&apos;&quot;&amp;</x:note>";
    assert_eq!(values(note)[4], text("a <&lt;BC'\"&"));
    let line = &rows("<line pieces='&#49;&#x32;'>&gt;</line>")[1].values;
    assert_eq!(line[2..], [text(">"), 12.into()]);
}

#[test]
fn documents_that_are_not_well_formed_are_refused_with_their_line() {
    let cases = [
        ("<total>1</totl>", "/order/total: not well-formed in line 1: expected `</total>`"),
        ("\n\n<internal><b>1</internal>", "/order/internal/b: not well-formed in line 3"),
        ("<total a=1/>", "/order/total: not well-formed in line 1"),
        ("<total a='1' a='2'/>", "/order/total: not well-formed in line 1"),
        ("<total a='<'/>", "/order/total/@a: not well-formed: there is a `<` in it"),
        ("<total>&#0;</total>", "/order/total: not well-formed"),
        ("<total>&#8;</total>", "/order/total: not well-formed: the character U+0008 is in it"),
        ("<total>\u{1}</total>", "/order/total: not well-formed: the character U+0001 is in it"),
        ("<line pieces='&#2;'/>", "/order/line/@pieces: not well-formed: the character U+0002"),
        ("<total>& </total>", "/order/total: not well-formed in line 1"),
        ("<!-- -- -->", "/order: not well-formed in line 1"),
        ("<?xml version=\"1.0\"?>", "/order: an XML declaration stands at the beginning"),
    ];
    for (inside, reason) in cases {
        let said = refusal(inside);
        assert!(said.starts_with(reason), "{inside}: {said}");
    }
    let whole = order("");
    for (xml, reason) in [
        (String::new(), "/: there is no element"),
        (" <!-- nothing -->".to_owned(), "/: there is no element"),
        (whole.repeat(2), "/: not well-formed: there is a second root element"),
        (format!("{whole} x"), "/: not well-formed: there is text outside of the root element"),
        (format!("{whole}</order>"), "/: not well-formed in line 1"),
        (whole.replace("</order>", ""), "/order: not well-formed: the document ends before"),
        (whole.replace("</order>", "<tot"), "/order: not well-formed in line 1"),
        (format!("<?xml version=\"1.1\"?>{whole}"), "/: XML \"1.1\" is not 1.0"),
    ] {
        let said = self::reason(&xml);
        assert!(said.starts_with(reason), "{xml}: {said}");
    }
}

#[test]
fn an_encoding_must_be_the_true_one() {
    let declared = |name: &str| format!("<?xml version=\"1.0\" encoding=\"{name}\"?>{}", order(""));
    assert!(small().map(&declared("utf-8")).is_ok() && small().map(&declared("US-ASCII")).is_ok());
    assert!(small().map(&format!("\u{feff}{}", declared("UTF-8"))).is_ok());
    let reason = "/: the encoding is declared as \"ISO-8859-1\", and it is UTF-8";
    assert_eq!(self::reason(&declared("ISO-8859-1")), reason);
}

/// The bomb is never lit: what would expand it is refused, with and without its definition.
#[test]
fn entities_of_its_own_are_refused() {
    let dtd = "/: a document type definition (DTD) is refused";
    assert_eq!(reason(&format!("<!DOCTYPE order>{}", order(""))), dtd);
    let bomb = "<!DOCTYPE o [<!ENTITY a \"aa\"><!ENTITY b \"&a;&a;\">]>";
    assert_eq!(reason(&format!("{bomb}{}", order("<x:note>&b;</x:note>"))), dtd);
    assert_eq!(refusal("<x:note>&b;</x:note>"), "/order/x:note: the entity \"b\" is not known");
    let attribute = refusal("<line pieces='&b;'>a</line>");
    assert!(attribute.starts_with("/order/line/@pieces: not well-formed"), "{attribute}");
}

#[test]
fn limits_hold_also_where_nothing_is_mapped() {
    let deep = format!("<internal>{}", "<d>".repeat(1_000));
    assert_eq!(refusal(&deep), "/order/internal/d/d/d/d: nested deeper than 5 elements");
    let many = format!("<internal>{}</internal>", "<d a='1'/>".repeat(20));
    let said = refusal(&many);
    assert_eq!(said, "/order/internal/d[9]: there are more than 20 elements and attributes");
    let exact = "<raw>".to_owned() + &"x".repeat(100) + "</raw>";
    assert!(small().map(&order(&exact)).is_ok());
    let long = "/order/raw: has more than 100 characters";
    assert_eq!(refusal(&exact.replace("</", "<![CDATA[x]]></")), long);
    let attribute = refusal(&format!("<line pieces='{}'/>", "1".repeat(101)));
    assert_eq!(attribute, "/order/line/@pieces: has more than 100 characters");
    let large = order(&" ".repeat(4_000));
    assert_eq!(reason(&large), format!("/: has {} bytes, more than 4000", large.len()));
}

#[test]
fn contracts_that_cannot_be_kept_are_refused_with_the_line() {
    let line_of = |part: &str| SMALL.lines().position(|line| line.contains(part)).unwrap() + 1;
    let cases = [
        ("type = \"boolean\"", "type = \"bool\"", "there is no type `bool`; there are text, "),
        ("\"x:note\"", "\"y:note\"", "there is no namespace of the prefix `y`"),
        ("\"@id\"", "\"@id/total\"", "`@id/total` goes on after an attribute"),
        ("\"@id\"", "\"a//b\"", "`` is no name of an element"),
        ("\"@id\"", "\"/order/@id\"", "`/order/@id` begins at the top"),
        (
            "rows = \"/order/line\"",
            "rows = \"order/line\"",
            "`order/line` does not begin at the top",
        ),
        ("rows = \"/order/line\"", "rows = \"/order/@line\"", "an attribute is no row"),
        ("rows = \"/order/line\"", "rows = \"/order\"", "another table has these rows already"),
        ("name = \"placed\"", "name = \"total\"", "the column `total` is there already"),
        ("name = \"placed\"", "name = \"document\"", "the column `document` is there already"),
        ("name = \"placed\"", "name = \"a\\\"b\"", "`a\"b` is no name of a table or a column"),
        ("name = \"lines\"", "name = \"orders\"", "the table `orders` is there already"),
        ("default = \"false\"", "default = \"no\"", "\"no\" is not true or false"),
        ("default = \"false\"", "default = \" \"", "the default is empty"),
        (
            "required = true }",
            "required = true, default = \"1\" }",
            "what is required needs no default",
        ),
        ("scale = 2", "max = 2", "only text has a max"),
        ("max = 12", "scale = 2", "text has no scale"),
        ("space = \"keep\"", "space = \"all\"", "space is \"collapse\" or \"keep\""),
        ("max = 3", "max = 0", "max is 0, below min or 1"),
        ("unknown = \"fail\"", "unknown = \"maybe\"", "`maybe` is not \"fail\" or \"ignore\""),
        (
            "ignore = [\"/order/internal\"",
            "ignore = [\"/order/line\"",
            "it is ignored and a table has",
        ),
        ("max = 3", "most = 3", "unknown field `most`"),
        ("max = 3", "max = \"3\"", "invalid type"),
        ("max = 3", "max = = 3", ""),
    ];
    for (from, to, problem) in cases {
        let error = Contract::parse(&SMALL.replacen(from, to, 1)).expect_err(to);
        assert!(error.problem.starts_with(problem), "{to}: {error}");
        assert_eq!(error.line, line_of(from), "{to}: {error}");
    }
    let apart = SMALL.replace("rows = \"/order\"", "rows = \"/other\"");
    let error = Contract::parse(&apart).unwrap_err().to_string();
    assert!(error.contains("no table above has rows around these"), "{error}");
    assert!(Contract::parse(&SMALL.replace("depth = 5", "depth = 0")).is_err());
}

/// What the contract makes of a document is what the document was made of, however it is written.
#[test]
fn every_document_becomes_what_it_was_made_of() {
    let mapper = Mapper::new(Contract::parse(MAPPING).unwrap());
    let mut flaws = std::collections::BTreeSet::new();
    for number in 1..=2_000 {
        let made = make(3, number);
        match (mapper.map(&made.xml), made.expected) {
            (Ok(rows), Ok(application)) => {
                assert_eq!(rows, expected(&application), "{number}: {}", made.xml);
            }
            (Err(refused), Err(flaw)) => {
                let said = refused.to_string();
                assert!(said.starts_with(flaw.reason()), "{number}, {flaw:?}: {said}");
                assert!(said.len() < 200, "{said}");
                flaws.insert(flaw);
            }
            (mapped, expected) => panic!("{number}: {mapped:?}, not {expected:?}: {}", made.xml),
        }
    }
    assert_eq!(flaws.len(), Flaw::ALL.len());
}

fn expected(it: &Application) -> Vec<MappedRow> {
    let mut rows = Vec::new();
    let mut push = |table, values: Vec<Value>| rows.push(MappedRow { table, values });
    let or = |value: Option<&'static str>, default| text(value.unwrap_or(default));
    let application = vec![
        1.into(),
        text(&it.reference),
        text(&it.submitted),
        or(it.channel, "paper"),
        it.consent.into(),
        it.remark.into(),
    ];
    push(0, application);
    let mut addresses = Vec::new();
    for (place, it) in it.applicants.iter().enumerate() {
        let names = [text(it.first), text(it.last), it.title.into(), text(&it.birth_date)];
        let mut row = vec![(place + 1).into(), or(it.role, "main")];
        row.extend(names);
        row.push(it.children.unwrap_or(0).into());
        push(1, row);
        for it in &it.addresses {
            addresses.push(vec![
                (addresses.len() + 1).into(),
                (place + 1).into(),
                or(it.kind, "home"),
                text(&it.street),
                text(&it.postcode),
                text(it.city),
                or(it.country, "DE"),
                it.since.as_ref().into_iter().map(Value::from).next().unwrap_or(Value::Null),
            ]);
        }
    }
    addresses.into_iter().for_each(|row| push(2, row));
    for (place, it) in it.incomes.iter().enumerate() {
        let amount = format!("{}.{:02}", it.cents / 100, it.cents % 100);
        let (kind, employer) = (text(it.kind), it.employer.into());
        let (currency, taxable) = (or(it.currency, "EUR"), it.taxable.unwrap_or(true).into());
        push(3, vec![(place + 1).into(), kind, employer, text(&amount), currency, taxable]);
    }
    for (place, it) in it.attachments.iter().enumerate() {
        let (file, bytes) = (text(&it.file), it.bytes.into());
        push(4, vec![(place + 1).into(), file, bytes, it.description.into()]);
    }
    rows
}
