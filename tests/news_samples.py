"""News as several sources tell it, and news that only sounds alike."""

QUAKE = [
    (
        "Magnitude 7.1 earthquake strikes off Chile coast, tsunami warning issued",
        "A powerful earthquake of magnitude 7.1 struck off the northern coast of Chile near Iquique on Tuesday, and "
        "authorities issued a tsunami warning for coastal towns.",
    ),
    (
        "Strong quake hits Chile; residents told to evacuate over tsunami threat",
        "Thousands of people were ordered to leave the shoreline in northern Chile after a strong quake off Iquique "
        "raised fears of a tsunami.",
    ),
    (
        "Chile: thousands flee the coast after tsunami alert",
        "Sirens sounded in Iquique and Arica as people ran for higher ground. The navy said waves of up to two metres "
        "could follow the 7.1 tremor.",
    ),
    (
        "Tsunami alert as powerful tremor rocks northern Chile",
        "Chile's seismological centre put the magnitude at 7.1. The epicentre lay 60 km west of Iquique. A tsunami "
        "alert was declared for the entire north.",
    ),
    (
        "Seismologists: 7.1 quake off Iquique triggers tsunami warnings",
        "The Pacific Tsunami Warning Center said hazardous waves were possible along the coasts of Chile and Peru "
        "after the earthquake.",
    ),
]
MERGER = [
    (
        "Nordbank to buy rival Helvetia Trust in $12bn deal",
        "Nordbank agreed to acquire Helvetia Trust for 12 billion dollars in shares, creating the region's "
        "third-largest lender.",
    ),
    (
        "Helvetia Trust accepts takeover offer from Nordbank",
        "The board of Helvetia Trust recommended that shareholders accept the all-share offer by Nordbank, worth about "
        "$12 billion.",
    ),
    (
        "Nordbank swallows Helvetia in biggest banking merger of the decade",
        "Regulators will look closely at Nordbank's purchase of Helvetia Trust, which would create a lender with 900 "
        "branches.",
    ),
    (
        "Banking giant emerges as Nordbank and Helvetia Trust join forces",
        "Up to 4,000 jobs may go as Nordbank and Helvetia Trust merge, unions warned on Monday.",
    ),
    (
        "Unions alarmed by Nordbank–Helvetia merger",
        "Worker representatives fear for jobs after Nordbank said it would take over Helvetia Trust.",
    ),
]
OUTAGE = [
    (
        "Cloudspan outage takes thousands of websites offline",
        "A faulty configuration update at content network Cloudspan made banks, shops and news sites unreachable for "
        "two hours.",
    ),
    (
        "Websites down worldwide after Cloudspan failure",
        "Internet users saw error messages on Wednesday as Cloudspan, which delivers content for many large sites, "
        "suffered a failure.",
    ),
    (
        "What we know about the Cloudspan outage",
        "Cloudspan apologised and said that a configuration update had knocked out its network. Banks and airlines "
        "were affected.",
    ),
    (
        "Cloudspan blames bad configuration for global internet disruption",
        "The company said engineers rolled back the update within ninety minutes. Thousands of sites were unreachable.",
    ),
    (
        "Internet disruption: Cloudspan restores service",
        "Service has been restored after an outage at Cloudspan that hit airlines, banks and news sites around the "
        "world.",
    ),
]
_TOWNS = [
    "Springfield", "Portland", "Riverton", "Oakdale", "Fairview", "Georgetown", "Salem", "Bristol", "Clinton",
    "Madison", "Ashland", "Dover", "Milton", "Newport", "Oxford", "Burlington", "Manchester", "Clayton", "Kingston",
    "Hudson", "Marion", "Franklin", "Arlington", "Auburn", "Lexington",
]  # fmt: skip
_MATTERS = [
    "school budget", "transit plan", "water works", "library roof", "flood wall", "bike lanes", "housing bonds",
    "stadium lease", "park rangers", "bus drivers", "hospital wing", "airport runway", "fire brigade", "museum heist",
    "snow ploughs", "chess festival", "dog licences", "street lamps", "zoo elephants", "food market", "power cables",
    "theatre season", "ferry timetable", "noise limits", "tree planting",
]  # fmt: skip
# Fifty stories in the same words about other things.
UNRELATED = [
    *(
        (
            f"Mayor of {town} announces new plan for {matter}",
            f"The mayor of {town} said on Monday that the city council will vote on a new plan for {matter} next week, "
            "officials report.",
        )
        for town, matter in zip(_TOWNS, _MATTERS, strict=True)
    ),
    *(
        (
            f"{town} council rejects {matter} proposal after public protest",
            f"After hours of debate the council in {town} voted against the proposal on {matter}, a spokesman said. "
            "Residents had protested for weeks.",
        )
        for town, matter in zip(_TOWNS, [*_MATTERS[7:], *_MATTERS[:7]], strict=True)
    ),
]
