use super::*;

fn read(body: &str) -> Estimate {
    Asked::read(body.as_bytes()).expect("an object").estimate
}

#[test]
fn every_dialect_says_how_much_is_sent_and_how_long_the_answer_may_be() {
    let sea = "sea ".repeat(10);
    for body in [
        format!(
            r#"{{"messages":[{{"role":"user","content":"{sea}"}}],"max_completion_tokens":50,"max_tokens":9}}"#
        ),
        format!(r#"{{"input":"{sea}","max_output_tokens":50}}"#),
        format!(r#"{{"input":["{sea}"],"max_tokens":50}}"#),
        r#"{"input":[[1,2,3,4,5],[6,7,8,9,10]],"max_tokens":50}"#.to_owned(),
        format!(r#"{{"system":[{{"type":"text","text":"{sea}"}}],"messages":[],"max_tokens":50}}"#),
        format!(
            r#"{{"contents":[{{"role":"user","parts":[{{"text":"{sea}"}}]}}],"generationConfig":{{"maxOutputTokens":50}}}}"#
        ),
    ] {
        let estimate = read(&body);
        assert_eq!((estimate.input, estimate.max_output), (10, Some(50)), "{body}");
    }
}

#[test]
fn a_picture_or_a_file_counts_as_one_and_not_by_its_length() {
    let data = "A".repeat(400_000);
    for part in [
        format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#),
        format!(r#"{{"type":"input_image","image_url":"data:image/png;base64,{data}"}}"#),
        format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"a/b","data":"{data}"}}}}"#),
        format!(r#"{{"type":"file","file":{{"file_data":"{data}"}}}}"#),
        format!(r#"{{"inlineData":{{"mimeType":"a/b","data":"{data}"}}}}"#),
    ] {
        let body = format!(r#"{{"messages":[{{"content":[{part},{{"type":"text","text":"four"}}]}}]}}"#);
        let input = read(&body).input;
        assert!((TOKENS_A_MEDIUM + 1..TOKENS_A_MEDIUM + 4).contains(&input), "{input} {}", &body[..90]);
    }
}

#[test]
fn a_text_that_only_begins_as_a_data_url_counts_as_text() {
    let content = |text: &str| read(&format!(r#"{{"messages":[{{"content":"{text}"}}]}}"#)).input;
    let sea = "sea ".repeat(10_000);
    assert_eq!(content(&format!("data: {sea}")), 10_002);
    assert_eq!(content(&format!("data:image/png;base64,{sea}")), 10_006);
    assert_eq!(content(&format!("data:image/png;base64,{}", "A".repeat(400_000))), TOKENS_A_MEDIUM);
}

#[test]
fn the_schema_of_a_tool_is_text_whatever_its_types_are_called() {
    let tools = r#"{"tools":[{"type":"function","parameters":{"type":["string","null"],
        "properties":{"type":{"type":"string"},"n":{"type":5}}}}]}"#;
    assert!(read(tools).input < 20);
}

#[test]
fn whether_the_answer_is_to_be_streamed_is_known() {
    let streamed = |body: &[u8]| Asked::read(body).expect("an object").stream;
    assert!(streamed(br#"{"stream":true}"#));
    assert!(!streamed(br#"{"stream":null}"#) && !streamed(b"{}"));
}

#[test]
fn several_answers_are_counted() {
    assert_eq!((read(r#"{"n":3}"#).answers, read(r#"{"best_of":2,"n":null}"#).answers), (3, 2));
}

#[test]
fn from_what_is_no_object_nothing_is_told() {
    for body in ["", "sea", "[1]", "\"model\"", "=1", &"[".repeat(100_000)] {
        assert_eq!(Asked::read(body.as_bytes()), None);
    }
    assert_eq!(
        Asked::read(b"{}"),
        Some(Asked { estimate: Estimate { answers: 1, ..Estimate::default() }, ..Asked::default() })
    );
}

const MESSAGES: &str = r#""messages":[{"role":"user","content":"sea sea sea sea "}]"#;

/// A chat request with one more member, before or behind the others.
fn chat(member: &str) -> [String; 2] {
    [
        format!(r#"{{{member},"model":"gpt-4o",{MESSAGES}}}"#),
        format!(r#"{{"model":"gpt-4o",{MESSAGES},{member}}}"#),
    ]
}

#[test]
fn a_body_that_is_odd_in_one_field_is_read_in_all_others() {
    let deep = format!(r#""metadata":{}1{}"#, "[".repeat(200), "]".repeat(200));
    for (member, max_output) in [
        (r#""max_tokens":100.0"#, Some(100)),
        (r#""max_tokens":1e2"#, Some(100)),
        (r#""max_tokens":"100""#, Some(100)),
        (r#""max_tokens":99.5"#, Some(100)),
        (r#""max_tokens":-1"#, None),
        (r#""max_tokens":null"#, None),
        (r#""max_tokens":NaN"#, None),
        (r#""max_tokens":Infinity"#, None),
        (r#""max_tokens":"many""#, None),
        (r#""max_tokens":{"a":[1]}"#, None),
        (r#""max_tokens":5,"max_tokens":100"#, Some(100)),
        (r#""max_tokens":5,"max_tokens":null"#, None),
        (r#""max_tokens":null,"max_tokens":7"#, Some(7)),
        (r#""max_completion_tokens":-1,"max_tokens":7"#, None),
        (r#""max_tokens":1e300"#, Some(crate::model::rate::MAX_UNITS)),
        (r#""MAX_Tokens":7"#, Some(7)),
        (r#""max\u005ftokens":7"#, Some(7)),
        (r#""n":1.0"#, None),
        (r#""stream":1"#, None),
        (r#""stream":"yes""#, None),
        (r#""generationConfig":null"#, None),
        (r#""generationConfig":[]"#, None),
        (r#""generation_config":{"max_output_tokens":"9"}"#, Some(9)),
        (r#""user":"\ud83d""#, None),
        (r#""user":NaN"#, None),
        (r#""user":"a","user":"b""#, None),
        (&deep, None),
    ] {
        for body in chat(member) {
            for body in [body.clone(), format!("\u{feff}{body}")] {
                let asked = Asked::read(body.as_bytes()).expect("an object");
                assert_eq!(asked.model.as_deref(), Some("gpt-4o"), "{body}");
                assert_eq!((asked.estimate.input, asked.estimate.answers), (4, 1), "{body}");
                assert_eq!((asked.estimate.max_output, asked.unread), (max_output, None), "{body}");
            }
        }
    }
    let bytes = [b"{\"user\":\"\xff\",".as_slice(), br#""model":"m","input":"four"}"#].concat();
    let asked = Asked::read(&bytes).expect("an object");
    assert_eq!((asked.model.as_deref(), asked.estimate.input, asked.unread), (Some("m"), 1, None));
}

#[test]
fn a_call_that_names_two_models_is_one_to_both() {
    let read = |body: &str| Asked::read(body.as_bytes()).expect("an object");
    for body in [
        r#"{"model":"a","model":"b"}"#,
        r#"{"model":"a","Model":"b","model":"a"}"#,
        r#"{"model":["a","b"]}"#,
        r#"{"model":"a","mod\u0065l":"b"}"#,
    ] {
        let asked = read(body);
        let names = (asked.model.as_deref(), asked.other_model.as_deref(), asked.unread);
        assert_eq!(names, (Some("a"), Some("b"), None), "{body}");
    }
    assert_eq!(read(r#"{"model":"a","model":"a"}"#).other_model, None);
    assert_eq!(read(r#"{"model":null}"#).model, None);
    assert_eq!(read(r#"{"model":5}"#).model.as_deref(), Some("5"));
    let many = read(r#"{"model":"a","model":"b","model":"c"}"#).unread;
    assert_eq!(many.map(|unread| unread.why), Some(Why::ManyModels));
}

#[test]
fn what_is_no_document_as_a_whole_counts_by_its_length_too() {
    for body in [
        format!(r#"{{"model":"m","input":"{}"#, "sea ".repeat(100)),
        format!(r#"{{"model":"m" "input":["sea", {} "#, "sea ".repeat(100)),
        format!(r#"{{"model":"m"}} {}"#, "sea ".repeat(100)),
        format!("{{\"model\":\"m\",{}", "\u{1}".repeat(400)),
        format!(r#"{{"model":"m","a":{}"#, "[".repeat(100_000)),
    ] {
        let asked = Asked::read(body.as_bytes()).expect("it begins as an object");
        assert_eq!(asked.model.as_deref(), Some("m"));
        assert_eq!(asked.unread.map(|unread| unread.why), Some(Why::NotJson));
        assert_eq!(asked.careful_estimate().input, (body.len() as u64).div_ceil(4));
    }
}

#[test]
fn the_beginning_of_a_body_may_name_its_model() {
    let of = |text: &str| Asked::glimpse(text.as_bytes(), 8, Why::TooLarge).model;
    for text in [
        r#"{"messages":[{"model":"x"}],"model":"m","input":"sea"#,
        r#"[{"model":"m"},{"model":"x"}"#,
        "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b\r\n",
        "prompt=sea&model=m&n=1",
    ] {
        assert_eq!(of(text).as_deref(), Some("m"), "{text}");
    }
    for text in ["", "sea", r#"{"model":"gpt-"#, r#"{"model":5"#, "\u{1f}\u{8b}"] {
        assert_eq!(of(text), None, "{text}");
    }
}

#[test]
fn the_parts_of_a_form_name_their_models_however_they_are_written() {
    let models = |text: &str| {
        let asked = Asked::glimpse(text.as_bytes(), 8, Why::NotJson);
        (asked.model, asked.other_model, asked.unread.map(|unread| unread.why))
    };
    let part = |head: &str, value: &str| format!("--b\r\n{head}\r\n\r\n{value}\r\n");
    let plain = part("Content-Disposition: form-data; name=\"model\"", "m");
    let file = part(
        "Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\nContent-Type: audio/mpeg",
        &"s\n".repeat(1 << 20),
    );
    for text in [
        plain.clone(),
        format!("\r\n{plain}"),
        format!("A preamble that is to be ignored.\r\n{plain}"),
        format!("{{\r\n{plain}"),
        plain.replace("\r\n", "\n"),
        format!("{file}{plain}--b--\r\n"),
        part("Content-Disposition: form-data; name=model", "m"),
        part("content-disposition:form-data;name='model'", "m"),
        part("Content-Disposition: form-data; x=y; filename=\"f\"; NAME = \"model\" ; z=1", "m"),
        part("Content-Disposition: form-data;\r\n  name=\"model\"", "m"),
        part("Content-Disposition: form-data; name*=utf-8''model", "m"),
        part("Content-Disposition: form-data; name=\"mo\\del\"", "m"),
        part("Content-Type: text/plain\r\nCONTENT-DISPOSITION: form-data; name=\"Model\"", " m "),
        part("Content-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain", "m"),
    ] {
        let short = &text[..text.len().min(90)];
        assert_eq!(models(&text), (Some("m".into()), None, Some(Why::NotJson)), "{short}");
    }
    let two = |value| part("Content-Disposition: form-data; name=\"model\"", value);
    let named = models(&[two("a"), two("b"), two("a")].concat());
    assert_eq!(named, (Some("a".into()), Some("b".into()), Some(Why::NotJson)));
    assert_eq!(models(&[two("a"), two("b"), two("c")].concat()).2, Some(Why::ManyModels));
    let in_json = models(&format!("{}{plain}", part("Content-Disposition: x", r#"{"model":"decoy"}"#)));
    assert_eq!(in_json, (Some("decoy".into()), Some("m".into()), Some(Why::NotJson)));
    for text in ["a=b&mod%65l=a&model=b%2Fc", "x={\"model\":\"a\"}&model=b/c"] {
        assert_eq!(models(text).1.as_deref(), Some("b/c"), "{text}");
    }
    let quoted = models(r#"{"model":"a","input":"https://x.example/?a=b&model=b&"#);
    assert_eq!(quoted, (Some("a".into()), None, Some(Why::NotJson)), "a prompt may quote anything");
}

#[test]
fn utf_16_and_utf_32_are_read_like_utf_8() {
    let body = &chat(r#""max_tokens":9"#)[0];
    let wide = |body: &str| -> [Vec<u8>; 3] {
        let units = || body.encode_utf16();
        [
            [0xff, 0xfe].into_iter().chain(units().flat_map(u16::to_le_bytes)).collect(),
            units().flat_map(u16::to_be_bytes).collect(),
            body.chars().flat_map(|it| u32::from(it).to_le_bytes()).collect(),
        ]
    };
    for wide in wide(body) {
        assert_eq!(Asked::read(&wide), Asked::read(body.as_bytes()));
        assert!(begins_as_json(&wide));
    }
    let long = body.replace("sea ", &"sea ".repeat(100_000));
    for wide in wide(&long) {
        assert_eq!(Asked::read(&wide), None, "it takes too much memory");
        let length = wide.len() as u64;
        let asked = Asked::glimpse(&wide, length, Why::NotJson);
        assert_eq!(asked.model.as_deref(), Some("gpt-4o"));
        assert_eq!(asked.unread.map(|unread| unread.tokens), Some(length.div_ceil(4)));
    }
}

proptest::proptest! {
    #[test]
    fn no_body_is_too_odd_to_be_read(
        parts in proptest::collection::vec(proptest::prop_oneof![
            r#""(model|max_tokens|messages|input|n|generationConfig|type|data)":"#,
            "[\\[\\]{}\",:\\\\u0-9d. -]{0,6}",
            "\"[a-z]{0,5}\"",
        ], 0..30),
        piece in 0..64_usize,
    ) {
        let body = format!("{{{}", parts.concat());
        let asked = Asked::read(body.as_bytes()).expect("it begins as an object");
        let is_json = serde_json::from_str::<serde_json::Value>(&body).is_ok();
        let many = matches!(asked.unread, Some(Unread { why: Why::ManyModels, .. }));
        proptest::prop_assert!(!is_json || many || asked.unread.is_none(), "{}", body);
        let _ = Asked::glimpse(&body.as_bytes()[..piece.min(body.len())], 8, Why::NoRoom);
    }
}
