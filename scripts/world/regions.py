"""UN M49 regions, as Unicode CLDR 49 states them in `territoryContainment` (babel leaves this table out, so it is kept here; Unicode licence V3)."""

from __future__ import annotations

# Region code -> ISO 3166 codes of the countries directly in it. Deprecated territories and mere groupings are left out.
COUNTRIES_OF_REGION: dict[str, str] = {
    "005": "AR BO BR BV CL CO EC FK GF GS GY PE PY SR UY VE",
    "011": "BF BJ CI CV GH GM GN GW LR ML MR NE NG SH SL SN TG",
    "013": "BZ CR GT HN MX NI PA SV",
    "014": "BI DJ ER ET IO KE KM MG MU MW MZ RE RW SC SO SS TF TZ UG YT ZM ZW",
    "015": "DZ EG EH LY MA SD TN",
    "017": "AO CD CF CG CM GA GQ ST TD",
    "018": "BW LS NA SZ ZA",
    "021": "BM CA GL PM US",
    "029": "AG AI AW BB BL BQ BS CU CW DM DO GD GP HT JM KN KY LC MF MQ MS PR SX TC TT VC VG VI",
    "030": "CN HK JP KP KR MN MO TW",
    "034": "AF BD BT IN IR LK MV NP PK",
    "035": "BN ID KH LA MM MY PH SG TH TL VN",
    "039": "AD AL BA ES GI GR HR IT ME MK MT RS PT SI SM VA XK",
    "053": "AU CC CX HM NF NZ",
    "054": "FJ NC PG SB VU",
    "057": "FM GU KI MH MP NR PW UM",
    "061": "AS CK NU PF PN TK TO TV WF WS",
    "143": "TM TJ KG KZ UZ",
    "145": "AE AM AZ BH CY GE IL IQ JO KW LB OM PS QA SA SY TR YE",
    "151": "BG BY CZ HU MD PL RO RU SK UA",
    "154": "GG IM JE AX DK EE FI FO GB IE IS LT LV NO SE SJ",
    "155": "AT BE CH DE FR LI LU MC NL",
}

# Larger region -> regions it contains, as a tree: Caribbean is in North America (003), which is in the Americas (019).
# Left out, so that every region has one parent: the groupings Sub-Saharan Africa (202) and Latin America (419), and the Americas as
# direct parent of 013, 021 and 029, which CLDR states as well.
REGIONS_OF_REGION: dict[str, str] = {
    "002": "015 011 017 014 018",
    "003": "021 013 029",
    "009": "053 054 057 061",
    "019": "003 005",
    "142": "145 143 030 034 035",
    "150": "154 155 151 039",
}
