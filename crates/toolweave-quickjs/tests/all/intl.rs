//! Locale-aware methods: V8's own answers (Node 20.20, ICU 78, in UTC), and a clear refusal for the rest.

use crate::support::{check, outcome, run_on, shared};

/// What stands before each expression.
const DATES: &str = "const d = new Date(Date.UTC(2026, 2, 15, 8, 5, 9, 123)), n = new Date(Date.UTC(2026, 10, 2, 0, 5, 9)), \
     p = new Date(Date.UTC(2026, 0, 31, 15)); ";

/// Expressions and what V8 gives for them, as JSON.
#[rustfmt::skip]
const ANSWERS: &[(&str, &str)] = &[
    ("d.toLocaleString()", r#""3/15/2026, 8:05:09 AM""#),
    ("d.toLocaleDateString()", r#""3/15/2026""#),
    ("d.toLocaleTimeString()", r#""8:05:09 AM""#),
    ("n.toLocaleTimeString('en-US',{hour12:false})", r#""24:05:09""#),
    ("n.toLocaleTimeString('en-US',{hourCycle:'h23'})", r#""00:05:09""#),
    ("n.toLocaleTimeString('en-US',{hour:'2-digit',minute:'2-digit',hour12:false})", r#""24:05""#),
    ("d.toLocaleTimeString('en-US',{hour:'2-digit',minute:'2-digit'})", r#""08:05 AM""#),
    ("d.toLocaleTimeString('en-US',{hour:'numeric',minute:'2-digit'})", r#""8:05 AM""#),
    ("d.toLocaleTimeString('en-US',{hour:'numeric'})", r#""8 AM""#),
    ("p.toLocaleTimeString('en-US',{timeStyle:'short'})", r#""3:00 PM""#),
    ("d.toLocaleDateString('en-US',{year:'numeric',month:'long',day:'numeric'})", r#""March 15, 2026""#),
    ("d.toLocaleDateString('en-US',{weekday:'long',year:'numeric',month:'long',day:'numeric'})", r#""Sunday, March 15, 2026""#),
    ("d.toLocaleDateString('en-US',{weekday:'short',month:'short',day:'numeric'})", r#""Sun, Mar 15""#),
    ("d.toLocaleDateString('en-US',{weekday:'short',year:'numeric',month:'numeric',day:'numeric'})", r#""Sun, 3/15/2026""#),
    ("d.toLocaleDateString('en-US',{weekday:'short',month:'numeric',day:'numeric'})", r#""Sun, 3/15""#),
    ("d.toLocaleDateString('en-US',{month:'short',year:'numeric'})", r#""Mar 2026""#),
    ("d.toLocaleDateString('en-US',{month:'long'})", r#""March""#),
    ("d.toLocaleDateString('en-US',{month:'narrow'})", r#""M""#),
    ("d.toLocaleDateString('en-US',{month:'2-digit',day:'2-digit',year:'numeric'})", r#""03/15/2026""#),
    ("d.toLocaleDateString('en-US',{month:'2-digit',day:'2-digit'})", r#""03/15""#),
    ("d.toLocaleDateString('en-US',{month:'numeric',year:'numeric'})", r#""3/2026""#),
    ("d.toLocaleDateString('en-US',{month:'2-digit',year:'numeric'})", r#""03/2026""#),
    ("d.toLocaleDateString('en-US',{year:'numeric'})", r#""2026""#),
    ("d.toLocaleDateString('en-US',{year:'2-digit'})", r#""26""#),
    ("d.toLocaleDateString('en-US',{day:'numeric'})", r#""15""#),
    ("d.toLocaleDateString('en-US',{day:'2-digit'})", r#""15""#),
    ("d.toLocaleDateString('en-US',{weekday:'long'})", r#""Sunday""#),
    ("d.toLocaleDateString('en-US',{weekday:'long',day:'numeric'})", r#""15 Sunday""#),
    ("d.toLocaleDateString('en-US',{weekday:'long',hour:'numeric'})", r#""Sunday 8 AM""#),
    ("d.toLocaleDateString('en-US',{year:'2-digit',month:'numeric',day:'numeric'})", r#""3/15/26""#),
    ("d.toLocaleString('en-US',{year:'numeric',month:'long',day:'numeric',hour:'numeric',minute:'2-digit'})", r#""March 15, 2026 at 8:05 AM""#),
    ("d.toLocaleString('en-US',{year:'numeric',month:'short',day:'numeric',hour:'numeric',minute:'2-digit'})", r#""Mar 15, 2026, 8:05 AM""#),
    ("d.toLocaleString('en-US',{month:'short',day:'numeric',hour:'numeric',minute:'2-digit',second:'2-digit'})", r#""Mar 15, 8:05:09 AM""#),
    ("d.toLocaleString('en-US',{weekday:'long',month:'long',day:'numeric',hour:'numeric'})", r#""Sunday, March 15 at 8 AM""#),
    ("d.toLocaleString('en-US',{dateStyle:'full',timeStyle:'long'})", r#""Sunday, March 15, 2026 at 8:05:09 AM UTC""#),
    ("d.toLocaleString('en-US',{dateStyle:'long',timeStyle:'short'})", r#""March 15, 2026 at 8:05 AM""#),
    ("d.toLocaleString('en-US',{dateStyle:'medium',timeStyle:'medium'})", r#""Mar 15, 2026, 8:05:09 AM""#),
    ("d.toLocaleString('en-US',{dateStyle:'short',timeStyle:'short'})", r#""3/15/26, 8:05 AM""#),
    ("d.toLocaleString('en-US',{dateStyle:'full'})", r#""Sunday, March 15, 2026""#),
    ("d.toLocaleString('en-US',{timeStyle:'full'})", r#""8:05:09 AM Coordinated Universal Time""#),
    ("d.toLocaleString('en-US',{dateStyle:'short', year:'numeric'})", r#""TypeError: Can't set option year when dateStyle is used""#),
    ("d.toLocaleString('en-US',{timeZone:'America/New_York'})", r#""3/15/2026, 4:05:09 AM""#),
    ("d.toLocaleString('en-US',{timeZone:'America/New_York',timeZoneName:'short'})", r#""3/15/2026, 4:05:09 AM EDT""#),
    ("d.toLocaleString('en-US',{timeZone:'Europe/Berlin',timeZoneName:'short'})", r#""3/15/2026, 9:05:09 AM GMT+1""#),
    ("d.toLocaleString('en-US',{timeZone:'Asia/Kolkata',timeZoneName:'short'})", r#""3/15/2026, 1:35:09 PM GMT+5:30""#),
    ("d.toLocaleString('en-US',{timeZone:'Asia/Tokyo',dateStyle:'medium',timeStyle:'long'})", r#""Mar 15, 2026, 5:05:09 PM GMT+9""#),
    ("d.toLocaleString('en-US',{timeZone:'UTC',timeZoneName:'short'})", r#""3/15/2026, 8:05:09 AM UTC""#),
    ("d.toLocaleString('en-US',{timeZone:'Europe/London',timeZoneName:'short'})", r#""3/15/2026, 8:05:09 AM GMT""#),
    ("d.toLocaleString('en-US',{timeZone:'America/Los_Angeles',timeZoneName:'short'})", r#""3/15/2026, 1:05:09 AM PDT""#),
    ("d.toLocaleString('en-US',{timeZone:'Nope/Zone'})", r#""RangeError: Invalid time zone specified: Nope/Zone""#),
    ("d.toLocaleTimeString('en-US',{timeZoneName:'short'})", r#""8:05:09 AM UTC""#),
    ("d.toLocaleTimeString('en-US',{minute:'2-digit',second:'2-digit'})", r#""05:09""#),
    ("d.toLocaleTimeString('en-US',{minute:'numeric'})", r#""5""#),
    ("d.toLocaleTimeString('en-US',{second:'2-digit'})", r#""9""#),
    ("d.toLocaleTimeString('en-US',{fractionalSecondDigits:3})", r#""123""#),
    ("d.toLocaleTimeString('en-US',{hour:'2-digit',minute:'2-digit',second:'2-digit',fractionalSecondDigits:3,hour12:false})", r#""08:05:09.123""#),
    ("d.toLocaleString('en-US',{hour12:false})", r#""3/15/2026, 08:05:09""#),
    ("d.toLocaleString('en-GB')", r#""15/03/2026, 08:05:09""#),
    ("d.toLocaleDateString('en-GB')", r#""15/03/2026""#),
    ("d.toLocaleDateString('en-GB',{day:'numeric',month:'long',year:'numeric'})", r#""15 March 2026""#),
    ("d.toLocaleDateString('en-GB',{day:'numeric',month:'short',year:'numeric'})", r#""15 Mar 2026""#),
    ("d.toLocaleDateString('en-GB',{weekday:'long',day:'numeric',month:'long',year:'numeric'})", r#""Sunday, 15 March 2026""#),
    ("d.toLocaleDateString('en-GB',{weekday:'short',day:'numeric',month:'short'})", r#""Sun 15 Mar""#),
    ("d.toLocaleDateString('en-GB',{dateStyle:'short'})", r#""15/03/2026""#),
    ("d.toLocaleString('en-GB',{dateStyle:'medium',timeStyle:'short'})", r#""15 Mar 2026, 08:05""#),
    ("d.toLocaleString('en-GB',{day:'numeric',month:'long',year:'numeric',hour:'2-digit',minute:'2-digit'})", r#""15 March 2026 at 08:05""#),
    ("d.toLocaleTimeString('en-GB')", r#""08:05:09""#),
    ("d.toLocaleTimeString('en-GB',{hour:'2-digit',minute:'2-digit'})", r#""08:05""#),
    ("d.toLocaleTimeString('en-GB',{hour:'numeric',minute:'numeric'})", r#""08:05""#),
    ("d.toLocaleDateString('en-CA')", r#""2026-03-15""#),
    ("d.toLocaleString('en-CA')", r#""2026-03-15, 8:05:09 a.m.""#),
    ("d.toLocaleString('en-CA',{hour12:false})", r#""2026-03-15, 08:05:09""#),
    ("d.toLocaleDateString('sv-SE')", r#""2026-03-15""#),
    ("d.toLocaleString('sv-SE')", r#""2026-03-15 08:05:09""#),
    ("d.toLocaleDateString('sv')", r#""2026-03-15""#),
    ("d.toLocaleString('de-DE')", r#""15.3.2026, 08:05:09""#),
    ("d.toLocaleDateString('de-DE')", r#""15.3.2026""#),
    ("d.toLocaleDateString('de-DE',{day:'2-digit',month:'2-digit',year:'numeric'})", r#""15.03.2026""#),
    ("d.toLocaleTimeString('de-DE',{hour:'2-digit',minute:'2-digit'})", r#""08:05""#),
    ("d.toLocaleString('fr-FR')", r#""15/03/2026 08:05:09""#),
    ("d.toLocaleDateString('fr-FR')", r#""15/03/2026""#),
    ("d.toLocaleString('ja-JP')", r#""2026/3/15 8:05:09""#),
    ("d.toLocaleDateString('zh-CN')", r#""2026/3/15""#),
    ("d.toLocaleDateString('en-AU')", r#""15/03/2026""#),
    ("d.toLocaleString('en-AU')", r#""15/03/2026, 8:05:09 am""#),
    ("d.toLocaleDateString('en-IN')", r#""15/3/2026""#),
    ("d.toLocaleDateString('en')", r#""3/15/2026""#),
    ("new Intl.DateTimeFormat('en-US').format(d)", r#""3/15/2026""#),
    ("new Intl.DateTimeFormat('en-US',{dateStyle:'medium'}).format(0)", r#""Jan 1, 1970""#),
    ("new Intl.DateTimeFormat().resolvedOptions().timeZone", r#""UTC""#),
    ("JSON.stringify(new Intl.DateTimeFormat('en-US',{timeZone:'America/New_York',hour:'numeric',minute:'numeric',year:'numeric',month:'2-digit',day:'2-digit',hourCycle:'h23'}).formatToParts(d))", r#""[{\"type\":\"month\",\"value\":\"03\"},{\"type\":\"literal\",\"value\":\"/\"},{\"type\":\"day\",\"value\":\"15\"},{\"type\":\"literal\",\"value\":\"/\"},{\"type\":\"year\",\"value\":\"2026\"},{\"type\":\"literal\",\"value\":\", \"},{\"type\":\"hour\",\"value\":\"04\"},{\"type\":\"literal\",\"value\":\":\"},{\"type\":\"minute\",\"value\":\"05\"}]""#),
    ("new Date(NaN).toLocaleString()", r#""Invalid Date""#),
    ("new Intl.DateTimeFormat('en-US').format(new Date(NaN))", r#""RangeError: Invalid time value""#),
    ("(1234567.891).toLocaleString()", r#""1,234,567.891""#),
    ("(13802.5).toLocaleString('en-US')", r#""13,802.5""#),
    ("(0).toLocaleString()", r#""0""#),
    ("(-0).toLocaleString()", r#""-0""#),
    ("(-1234.5).toLocaleString()", r#""-1,234.5""#),
    ("(NaN).toLocaleString()", r#""NaN""#),
    ("(Infinity).toLocaleString()", r#""∞""#),
    ("(1e21).toLocaleString()", r#""1,000,000,000,000,000,000,000""#),
    ("(123456789012345680000).toLocaleString()", r#""123,456,789,012,345,680,000""#),
    ("(1.005).toLocaleString('en-US',{maximumFractionDigits:2})", r#""1.01""#),
    ("(2.5).toLocaleString('en-US',{maximumFractionDigits:0})", r#""3""#),
    ("(-2.5).toLocaleString('en-US',{maximumFractionDigits:0})", r#""-3""#),
    ("(1234.5).toLocaleString('en-US',{minimumFractionDigits:2})", r#""1,234.50""#),
    ("(1234.5).toLocaleString('en-US',{minimumFractionDigits:2,maximumFractionDigits:2})", r#""1,234.50""#),
    ("(1234.5678).toLocaleString('en-US',{maximumFractionDigits:1})", r#""1,234.6""#),
    ("(5).toLocaleString('en-US',{minimumIntegerDigits:2})", r#""05""#),
    ("(1234.5).toLocaleString('en-US',{useGrouping:false})", r#""1234.5""#),
    ("(0.256).toLocaleString('en-US',{style:'percent'})", r#""26%""#),
    ("(0.256).toLocaleString('en-US',{style:'percent',maximumFractionDigits:1})", r#""25.6%""#),
    ("(12.5).toLocaleString('en-US',{style:'percent'})", r#""1,250%""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'USD'})", r#""$1,234.50""#),
    ("(-1234.5).toLocaleString('en-US',{style:'currency',currency:'USD'})", r#""-$1,234.50""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'EUR'})", r#""€1,234.50""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'GBP'})", r#""£1,234.50""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'JPY'})", r#""¥1,235""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'INR'})", r#""₹1,234.50""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'CHF'})", r#""CHF 1,234.50""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'CAD'})", r#""CA$1,234.50""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'USD',currencyDisplay:'code'})", r#""USD 1,234.50""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'CAD',currencyDisplay:'narrowSymbol'})", r#""$1,234.50""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'USD',currencyDisplay:'name'})", r#""1,234.50 US dollars""#),
    ("(1234).toLocaleString('en-US',{style:'currency',currency:'USD',maximumFractionDigits:0})", r#""$1,234""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'USD',minimumFractionDigits:0})", r#""$1,234.5""#),
    ("(-5).toLocaleString('en-US',{style:'currency',currency:'USD',currencySign:'accounting'})", r#""($5.00)""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency'})", r#""TypeError: Currency code is required with currency style.""#),
    ("(1234.5).toLocaleString('en-US',{style:'currency',currency:'nope'})", r#""RangeError: Invalid currency code : nope""#),
    ("(1234).toLocaleString('en-US',{notation:'compact'})", r#""1.2K""#),
    ("(12345).toLocaleString('en-US',{notation:'compact'})", r#""12K""#),
    ("(999999).toLocaleString('en-US',{notation:'compact'})", r#""1M""#),
    ("(1500000).toLocaleString('en-US',{notation:'compact',maximumFractionDigits:1})", r#""1.5M""#),
    ("(1.26e9).toLocaleString('en-US',{notation:'compact'})", r#""1.3B""#),
    ("(0.5).toLocaleString('en-US',{notation:'compact'})", r#""0.5""#),
    ("(123).toLocaleString('en-US',{notation:'compact'})", r#""123""#),
    ("(1234567).toLocaleString('en-US',{notation:'compact',compactDisplay:'long'})", r#""1.2 million""#),
    ("(1234.5).toLocaleString('en-US',{maximumSignificantDigits:3})", r#""1,230""#),
    ("(0.00012345).toLocaleString('en-US',{maximumSignificantDigits:2})", r#""0.00012""#),
    ("(1).toLocaleString('en-US',{minimumSignificantDigits:3})", r#""1.00""#),
    ("(5).toLocaleString('en-US',{signDisplay:'always'})", r#""+5""#),
    ("(5).toLocaleString('en-US',{signDisplay:'exceptZero'})", r#""+5""#),
    ("(0).toLocaleString('en-US',{signDisplay:'exceptZero'})", r#""0""#),
    ("(-5).toLocaleString('en-US',{signDisplay:'never'})", r#""5""#),
    ("(5).toLocaleString('en-US',{style:'unit',unit:'kilobyte'})", r#""5 kB""#),
    ("(16).toLocaleString('en-US',{style:'unit',unit:'liter',unitDisplay:'long'})", r#""16 liters""#),
    ("(1234567.891).toLocaleString('de-DE')", r#""1.234.567,891""#),
    ("(1234567.891).toLocaleString('fr-FR')", r#""1 234 567,891""#),
    ("(1234.5).toLocaleString('es-ES')", r#""1234,5""#),
    ("(12345.5).toLocaleString('es-ES')", r#""12.345,5""#),
    ("(1234567.891).toLocaleString('en-IN')", r#""12,34,567.891""#),
    ("(1234567.891).toLocaleString('de-CH')", r#""1'234'567.891""#),
    ("(1234.5).toLocaleString('ar-EG')", r#""١٬٢٣٤٫٥""#),
    ("(1234.5).toLocaleString('pt-BR')", r#""1.234,5""#),
    ("(1234.5).toLocaleString('de-DE',{style:'currency',currency:'EUR'})", r#""1.234,50 €""#),
    ("(1234.5).toLocaleString('en-GB',{style:'currency',currency:'GBP'})", r#""£1,234.50""#),
    ("(0.5).toLocaleString('de-DE',{style:'percent'})", r#""50 %""#),
    ("(12345678901234567890n).toLocaleString()", r#""12,345,678,901,234,567,890""#),
    ("(12345n).toLocaleString('de-DE')", r#""12.345""#),
    ("(1234.5).toLocaleString('en-US',{maximumFractionDigits:101})", r#""RangeError: maximumFractionDigits value is out of range.""#),
    ("(1234.5).toLocaleString('en-US',{minimumFractionDigits:3,maximumFractionDigits:1})", r#""RangeError: maximumFractionDigits value is out of range.""#),
    ("new Intl.NumberFormat('en-US').format('1234567.891')", r#""1,234,567.891""#),
    ("JSON.stringify(new Intl.NumberFormat('en-US',{style:'currency',currency:'USD'}).formatToParts(-1234.5))", r#""[{\"type\":\"minusSign\",\"value\":\"-\"},{\"type\":\"currency\",\"value\":\"$\"},{\"type\":\"integer\",\"value\":\"1\"},{\"type\":\"group\",\"value\":\",\"},{\"type\":\"integer\",\"value\":\"234\"},{\"type\":\"decimal\",\"value\":\".\"},{\"type\":\"fraction\",\"value\":\"50\"}]""#),
    ("[1,2,3].map(new Intl.NumberFormat('en-US',{minimumFractionDigits:1}).format).join()", r#""1.0,2.0,3.0""#),
    ("[1234.5, new Date(0), 'x', null].toLocaleString()", r#""1,234.5,1/1/1970, 12:00:00 AM,x,""#),
    ("'a'.localeCompare('b')", "-1"),
    ("'a'.localeCompare('B')", "-1"),
    ("'A'.localeCompare('a')", "1"),
    ("'é'.localeCompare('f')", "-1"),
    ("'resume'.localeCompare('résumé')", "-1"),
    ("'a'.localeCompare('á', undefined, {sensitivity:'base'})", "0"),
    ("'a'.localeCompare('A', undefined, {sensitivity:'accent'})", "0"),
    ("'a'.localeCompare('A', 'en', {sensitivity:'base'})", "0"),
    ("'item10'.localeCompare('item9')", "-1"),
    ("'item10'.localeCompare('item9', undefined, {numeric:true})", "1"),
    ("'a-b'.localeCompare('ab')", "-1"),
    ("'_x'.localeCompare('x')", "-1"),
    ("'ä'.localeCompare('z','sv')", "1"),
    ("'ä'.localeCompare('z','de')", "-1"),
    ("['b','a','C','A','_','1','10','2','ä','Z','z'].sort((a,b)=>a.localeCompare(b)).join()", r#""_,1,10,2,a,A,ä,b,C,z,Z""#),
    ("['b','a','C'].sort(new Intl.Collator().compare).join()", r#""a,b,C""#),
    ("'a'.localeCompare('A',undefined,{caseFirst:'upper'})", "1"),
    ("'ABC'.toLocaleLowerCase()", r#""abc""#),
    ("new Intl.PluralRules('en-US').select(1)", r#""one""#),
    ("new Intl.PluralRules('en-US').select(0)", r#""other""#),
    ("['1','2','3','11','21','112'].map(x=>new Intl.PluralRules('en-US',{type:'ordinal'}).select(+x)).join()", r#""one,two,few,other,one,other""#),
    ("new Intl.ListFormat('en',{style:'long',type:'conjunction'}).format(['a','b','c'])", r#""a, b, and c""#),
    ("new Intl.ListFormat('en',{type:'disjunction'}).format(['a','b'])", r#""a or b""#),
    ("new Intl.RelativeTimeFormat('en',{numeric:'auto'}).format(-1,'day')", r#""yesterday""#),
    ("new Intl.RelativeTimeFormat('en').format(3,'hours')", r#""in 3 hours""#),
    ("new Intl.RelativeTimeFormat('en').format(-1,'day')", r#""1 day ago""#),
    ("Intl.getCanonicalLocales('EN-us').join()", r#""en-US""#),
];

#[tokio::test]
async fn the_common_forms_give_v8s_answers() {
    let mut program = DATES.to_owned();
    program +=
        "const t = (f) => { try { return f() } catch (e) { return e.name + ': ' + e.message } }; return [";
    for (expression, _) in ANSWERS {
        program += &format!("t(() => {expression}), ");
    }
    program += "]";
    // In a worker the time zone is UTC wherever the tests run.
    let result = run_on(shared("worker"), &program).await;
    let answers: Vec<serde_json::Value> = serde_json::from_str(&outcome(&result)).expect("a list");
    let mut wrong = String::new();
    for ((expression, expected), answer) in ANSWERS.iter().zip(&answers) {
        let answer = answer.to_string();
        if answer != *expected {
            wrong += &format!("\n{expression}\n  gave   {answer}\n  wanted {expected}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(answers.len(), ANSWERS.len());
}

#[tokio::test]
async fn what_is_not_known_is_refused() {
    check(&[
        (
            "return new Date(0).toLocaleDateString('fi-FI')",
            "exception at 1:20: RangeError: Dates in the locale fi-FI are not available in this engine: use en-US, or build the \
             text yourself",
            &[],
        ),
        (
            "return new Date(0).toLocaleDateString('de-DE', {month: 'long'})",
            "exception at 1:20: RangeError: Names of months and days in the locale de-DE are not available in this engine: use \
             en-US, or build the text yourself",
            &[],
        ),
        (
            "return (5).toLocaleString('fr-FR', {style: 'currency', currency: 'USD'})",
            "exception at 1:12: RangeError: The currency USD in the locale fr-FR is not available in this engine: use en-US, or \
             build the text yourself",
            &[],
        ),
        ("return 'I'.toLocaleLowerCase('tr') ", "exception at 1:12: RangeError: Letter case in the locale tr is not available in this engine: use en-US, or build the text yourself", &[]),
        ("new Intl.Segmenter('en')", "exception at 1:5: TypeError: Intl.Segmenter is not available in this engine", &[]),
        ("return (1).toLocaleString('not a locale')", "exception at 1:12: RangeError: Incorrect locale information provided: not a locale", &[]),
    ])
    .await;
}

#[tokio::test]
async fn a_worker_lives_in_utc() {
    let program = "const d = new Date(2026, 0, 15, 12); return [d.getTimezoneOffset(), d.toISOString(), d.getHours(), String(d), \
         Intl.DateTimeFormat().resolvedOptions().timeZone]";
    let expected = r#"[0,"2026-01-15T12:00:00.000Z",12,"Thu Jan 15 2026 12:00:00 GMT+0000","UTC"]"#;
    assert_eq!(outcome(&run_on(shared("worker"), program).await), expected);
}
