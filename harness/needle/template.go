package needle

import "strings"

// wording is one way to say and ask for a code. {s} is the subject, {c} the code, which always has a space before it.
type wording struct {
	needle   string
	question string
	prefix   string // how the answer begins; the code comes next
}

// template is one kind of fact, with wordings and subjects of each split.
type template struct {
	name           string
	literal        bool // question and prefix repeat the needle up to the code; else they share no content bigram with it
	detect, test   []wording
	forDet, forTes string // subjects, one word each
}

func (t *template) wordings(s Split) []wording {
	if s == Test {
		return t.test
	}
	return t.detect
}

func (t *template) subjects(s Split) []string {
	if s == Test {
		return strings.Fields(t.forTes)
	}
	return strings.Fields(t.forDet)
}

// sentence is the needle about a subject; question and answer prefix ask for that subject's code.
func (w wording) sentence(subject, code string) string {
	return strings.NewReplacer("{s}", subject, "{c}", code).Replace(w.needle)
}

func (w wording) ask(subject string) (question, prefix string) {
	r := strings.NewReplacer("{s}", subject)
	return r.Replace(w.question), r.Replace(w.prefix)
}

// TemplateNames returns the names of all templates, in the default order of use.
func TemplateNames() []string {
	out := make([]string, len(templates))
	for i := range templates {
		out[i] = templates[i].name
	}
	return out
}

// Literal says whether a template's question and answer prefix repeat the needle's words before the code, so that matching
// the last tokens is enough to find it. ok is false for an unknown name.
func Literal(name string) (literal, ok bool) {
	t := templateByName(name)
	if t == nil {
		return false, false
	}
	return t.literal, true
}

func templateByName(name string) *template {
	for i := range templates {
		if templates[i].name == name {
			return &templates[i]
		}
	}
	return nil
}

// literal makes a wording whose prefix is all that the needle says before the code.
func literal(before, question string) wording {
	return wording{before + " {c}.", question, before}
}

var templates = []template{
	{
		name: "access", literal: true,
		forDet: "observatory boathouse foundry pavilion greenhouse distillery armoury crypt laboratory sawmill brewery chapel",
		forTes: "lighthouse windmill tannery granary dairy warehouse aquarium cellar arcade depot refinery planetarium",
		detect: []wording{
			literal("The secret access code for the {s} is", "What is the secret access code for the {s}?"),
			literal("The entry code of the {s} is", "What is the entry code of the {s}?"),
		},
		test: []wording{
			literal("The code that unlocks the {s} is", "What is the code that unlocks the {s}?"),
			literal("The hidden keypad code of the {s} is", "What is the hidden keypad code of the {s}?"),
		},
	},
	{
		name:   "courier",
		forDet: "Dmitri Helga Farid Rosa Viktor Amaya Cedric Zofia Idris Noemi Ludwig Priya",
		forTes: "Astrid Jorge Leila Magnus Petra Samir Wanda Emil Chiara Bogdan Hanna Tariq",
		detect: []wording{
			{"Before the boat sailed, {s} whispered {c} to a guard.", "Which code did the guard hear from {s}?", "The code from {s} was"},
			{"In a hurry {s} scratched {c} on a slate and ran off.", "Which code was jotted down by {s}?", "The code jotted down by {s} was"},
		},
		test: []wording{
			{"On the back of a postcard {s} had pencilled {c} in haste.", "Which code comes from {s}?", "The code from {s} is"},
			{"Only {c} was legible after {s} dropped the envelope.", "Which code was on the paper of {s}?", "The code on the paper of {s} was"},
		},
	},
	{
		name: "passphrase", literal: true,
		forDet: "rowers falconers archers stonemasons puppeteers jugglers skaters fencers choristers smugglers",
		forTes: "climbers divers printers drummers sculptors wrestlers cyclists chemists magicians sprinters",
		detect: []wording{
			literal("The secret passphrase of the {s} is", "What is the secret passphrase of the {s}?"),
			literal("The agreed password of the {s} is", "What is the agreed password of the {s}?"),
		},
		test: []wording{
			literal("The private watchword of the {s} is", "What is the private watchword of the {s}?"),
			literal("The current passcode used by the {s} is", "What is the current passcode used by the {s}?"),
		},
	},
	{
		name:   "combination",
		forDet: "safe vault trunk strongbox cabinet coffer casket briefcase suitcase locker",
		forTes: "chest hatbox drawer wardrobe cupboard satchel toolbox cashbox bureau lunchbox",
		detect: []wording{
			{"Rotate the dial of the {s} to {c} and listen for the click.", "Which combination unlocks the {s}?", "The combination of the {s} is"},
			{"The {s} snaps ajar once somebody types {c} twice.", "Which code must be entered to get into the {s}?", "The code for the {s} is"},
		},
		test: []wording{
			{"Feed {c} to the lock and the {s} swings wide.", "Which sequence does the {s} require?", "The sequence for the {s} is"},
			{"Nothing moves the {s} except {c}, spelled aloud.", "Which string of characters frees the {s}?", "The string that frees the {s} is"},
		},
	},
	{
		name: "serial", literal: true,
		forDet: "cello trumpet oboe harp banjo clarinet bassoon accordion tuba mandolin",
		forTes: "violin flute trombone zither lute guitar saxophone harmonica viola cornet",
		detect: []wording{
			literal("The serial number of the {s} is", "What is the serial number of the {s}?"),
			literal("The inventory number on the {s} is", "What is the inventory number on the {s}?"),
		},
		test: []wording{
			literal("The catalogue number of the {s} is", "What is the catalogue number of the {s}?"),
			literal("The mark stamped inside the {s} is", "What is the mark stamped inside the {s}?"),
		},
	},
	{
		name:   "plate",
		forDet: "lorry tractor hearse minibus motorcycle taxi ambulance jeep scooter limousine",
		forTes: "truck van coach trolleybus bulldozer caravan pickup moped snowplough convertible",
		detect: []wording{
			{"A witness remembered {c} from the rear plate of the {s}.", "How is the {s} registered?", "The {s} is registered as"},
			{"Mud caked all of the {s} but the marking {c} near the bumper.", "Which code identifies the {s}?", "The code of the {s} is"},
		},
		test: []wording{
			{"The camera caught {c} as the {s} sped away.", "Which licence belongs to the {s}?", "The licence of the {s} is"},
			{"Police traced {c} abroad and then found the {s} in a ditch.", "Which tag does the {s} carry?", "The tag of the {s} is"},
		},
	},
	{
		name: "booking", literal: true,
		forDet: "Marta Anselm Birgit Tobias Ines Ravi Olga Kenji Fatima Leon Greta Pavel",
		forTes: "Nadia Hugo Selma Omar Ingrid Mateo Yuki Clara Bruno Amira Stefan Lucia",
		detect: []wording{
			literal("The booking reference for {s} is", "What is the booking reference for {s}?"),
			literal("The locator given to {s} is", "What is the locator given to {s}?"),
		},
		test: []wording{
			literal("The reservation code of {s} is", "What is the reservation code of {s}?"),
			literal("The membership number of {s} is", "What is the membership number of {s}?"),
		},
	},
	{
		name:   "signal",
		forDet: "submarine trawler tugboat icebreaker schooner frigate yacht catamaran dinghy steamer",
		forTes: "freighter whaler gondola kayak hovercraft lifeboat brigantine dredger galleon rowboat",
		detect: []wording{
			{"Radio operators reach the {s} by asking for {c} after dusk.", "Which call sign does the {s} answer to?", "The call sign of the {s} is"},
			{"Flags spelling {c} flew above the {s} for hours.", "Which signal did the {s} hoist?", "The signal of the {s} was"},
		},
		test: []wording{
			{"In thick fog the {s} tapped out {c} by lamp.", "Which message was sent from the {s}?", "The message sent from the {s} was"},
			{"Across the stern of the {s} somebody had daubed {c} in tar.", "Which code tells the {s} from others?", "The code of the {s} is"},
		},
	},
}
