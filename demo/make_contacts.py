#!/usr/bin/env python3
"""Writes contacts.jsonl: 500 invented CRM records, the same ones on every run.

All people and companies are made up; addresses use the example domains of RFC 2606,
telephone numbers the ranges kept for fiction. Ten records carry a broken e-mail address, as real
address books do: the provider answers those with 422, so that the failing path is shown too.
"""
import json
import random
import sys
import unicodedata

FIRST = """Ada Bram Chiara Dmitri Elif Farah Goran Hanna Ines Jonas Katarzyna Liam Mei Noor Olu
Priya Quentin Rosa Søren Tariq Uma Viktor Wanjiru Xavier Yuki Zoë Anaïs Björn Łukasz Tomás""".split()
LAST = """Abara Bergström Castellanos Duarte Eriksen Fontaine Grünwald Haddad Ivanova Jansen
Kowalczyk Lindqvist Moreau Nakagawa O'Rourke Petrov Quispe Ramanathan Szabó Tanaka Ueda
Villanueva Whitlock Xiong Yılmaz Zieliński""".split()
COMPANY_A = """Alder Beacon Cobalt Drift Ember Fathom Granite Hollow Indigo Juniper Kiln Larch
Mosaic Nimbus Orchard Pebble Quarry Russet Saffron Thistle""".split()
COMPANY_B = ["Analytics", "Bakery", "Freight", "Health", "Instruments", "Legal", "Optics",
             "Press", "Robotics", "Textiles"]
SUFFIX = ["Ltd", "GmbH", "Inc.", "S.A.", "& Sons", "B.V."]
TITLES = ["Head of Procurement", "Sales Engineer", "Office Manager", "CTO", "Buyer",
          "VP \"People\" & Culture", "Data Analyst", "Founder", "Account Executive", "Clinic Director"]
CITIES = [("Leeds", "GB", "+44 113 496 0"), ("Lyon", "FR", "+33 1 99 00 1"),
          ("München", "DE", "+49 30 23125 "), ("Boise", "US", "+1 208-555-0"),
          ("Malmö", "SE", "+46 31 390 06 "), ("Adelaide", "AU", "+61 8 5550 1")]
STAGES = ["lead", "qualified", "customer", "churned"]
SOURCES = ["web form", "trade fair", "referral", "import 2023", "newsletter"]


def plain(text: str) -> str:
    """Returns text in lower-case ASCII letters only, fit for an e-mail address."""
    text = text.translate(str.maketrans("øŁłı", "olli"))
    flat = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return "".join(c for c in flat if c.isalpha())


def record(number: int, rng: random.Random) -> dict[str, object]:
    """Returns record `number`; every 50th has an e-mail address without a domain."""
    first, last = rng.choice(FIRST), rng.choice(LAST)
    name_a, name_b = rng.choice(COMPANY_A), rng.choice(COMPANY_B)
    city, country, prefix = rng.choice(CITIES)
    domain = f"{name_a}-{name_b}".lower() + rng.choice([".example.com", ".example.org", ".example.net"])
    broken = number % 50 == 37
    return {
        "contact_id": f"C-{number:05d}",
        "first_name": first,
        "last_name": last,
        "email": f"{plain(first)}.{plain(last)}" + ("" if broken else f"@{domain}"),
        "phone": f"{prefix}{rng.randrange(100, 200)}",
        "title": rng.choice(TITLES),
        "company": f"{name_a} {name_b} {rng.choice(SUFFIX)}",
        "domain": domain,
        "city": city,
        "country": country,
        "stage": rng.choice(STAGES),
        "source": rng.choice(SOURCES),
        "employees": rng.choice([3, 8, 20, 45, 120, 600, 4000]),
        "opted_in": rng.random() < 0.8,
        "updated_at": (f"2024-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
                       f"T{rng.randrange(24):02d}:{rng.randrange(60):02d}:00Z"),
    }


def main() -> None:
    """Prints the records, one JSON object a line."""
    rng = random.Random(20240501)
    for number in range(1, 501):
        sys.stdout.write(json.dumps(record(number, rng), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
