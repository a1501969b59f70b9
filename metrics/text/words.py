"""Word lists: English stop words, abbreviations and months, and function words of English and other languages."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _words(
    """
    a about above after again against all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off on once
    only or other our ours ourselves out over own same she should so some such than that the their theirs them
    themselves then there these they this those through to too under until up upon us very was we were what when where
    whether which while who whom whose why will with would you your yours yourself yourselves
    aren't can't cannot couldn't didn't doesn't don't hadn't hasn't haven't isn't shouldn't wasn't weren't won't
    wouldn't he'd he'll he's here's how's i'd i'll i'm i've it'd it'll it's let's she'd she'll she's that's there's
    they'd they'll they're they've we'd we'll we're we've what's when's where's who's why's you'd you'll you're you've
    may might must shall
    """
)
"""English words without content, folded."""

ABBREVIATIONS = _words(
    """
    al approx apr assn aug ave bldg blvd capt cf cmdr co col corp dec dept dr ed eds eq esp est etc ext feb fig
    figs fr ft gen gov hon inc incl jan jr jul jun lt ltd maj mar messrs mr mrs ms mt nov nr oct para pp prof
    pt rd rep rev sec sen sep sept sgt sr st univ viz vol vols vs
    """
)
"""Words after which a full stop does not end a sentence, folded, in addition to single letters."""

MONTHS = {
    "jan": 1, "january": 1, "feb": 2, "february": 2, "mar": 3, "march": 3, "apr": 4, "april": 4, "may": 5, "jun": 6,
    "june": 6, "jul": 7, "july": 7, "aug": 8, "august": 8, "sep": 9, "sept": 9, "september": 9, "oct": 10,
    "october": 10, "nov": 11, "november": 11, "dec": 12, "december": 12,
}  # fmt: skip
"""English month names and their numbers."""

ENGLISH = _words(
    """
    about and any are because been can could did does don't each for from had has have he his how i if into is it it's
    its my not of only or our should that the their them there these they this those to was we were what when where
    which while who why will with would you your
    """
)
"""Function words that indicate English."""

NOT_ENGLISH = _words(
    """
    aan aber al alla alle als ama ao att auf aus av avec bei bir bu che ci como czy da dai dans das dass de del
    della dem der des det di dla du e een ein eine el ella em en er era es est esta et för für gli ha het ik ist ja
    jak je jest kan können la las le les lo los ma mais med met mi mit na nach ne nem nicht nie non nos não och oder
    og ou para pas por pour på qu que qui se sein si sie sind sobre som su sur também te til tu um uma un una und
    une ve von voor vous wir y za ze zu zum zur är
    """
)
"""Function words that indicate another language in Latin script; none is an English stop word."""
