"""Points: what words count for a code, and against it, by where they stand."""

from oncebox.mail.codes_lexicon import Sense
from oncebox.mail.codes_words import Label

#: what words count, by what they call something and where they stand
BEFORE = {
    Label.CODE: 35,
    Label.CODE_FOR: 18,
    Label.OTHER: -45,
    Label.GIFT: -55,
    Label.STANDING: -40,
    Label.EVENT: -25,
}
BEHIND = {Label.CODE: 30, Label.OTHER: -15, Label.GIFT: -30, Label.STANDING: -5, Label.EVENT: -10}
ABOVE = {
    Label.CODE: 32,
    Label.CODE_FOR: 20,
    Label.OTHER: -40,
    Label.GIFT: -50,
    Label.STANDING: -35,
    Label.EVENT: -20,
}
BELOW = {Label.CODE: 16, Label.OTHER: -15, Label.GIFT: -25, Label.EVENT: -10}
SAID = {Sense.PURPOSE: 10, Sense.ASK: 6, Sense.LIMIT: 8}
SUBJECT = {Sense.CODE: 14, Sense.GIFT: -20, Sense.OTHER: -8, Sense.EVENT: -8}
#: how far a word may be from what it names, and how short a word or a line is that says little
NEXT_TO = 10
IS = 2
FAR = 45
SHORT_LINE = 48
LABEL_LINE = 30
