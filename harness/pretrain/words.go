package pretrain

import "strings"

// The vocabulary of the needle task. Every word is one token; those of a code occur nowhere else.
var (
	places = strings.Fields(`lighthouse windmill tannery granary dairy warehouse cellar arcade depot refinery chapel brewery sawmill
		foundry pavilion greenhouse observatory boathouse laboratory armoury crypt distillery aquarium library`)
	kinds     = strings.Fields(`Sailors Farmers Children Locals`)
	codeWords = strings.Fields(`amber cobalt ivory scarlet indigo crimson olive coral falcon otter raven badger lynx comet delta ember fjord
		glacier harbour island jungle lagoon marble nectar onyx pepper quartz saffron thistle tundra velvet walnut yarrow zephyr
		cedar maple willow birch acorn pebble magnet lantern compass anchor beacon copper granite juniper`)

	haystackWords = map[string][]string{
		"who": strings.Fields(`baker fisherman teacher miller nurse mayor doctor judge cook shepherd carpenter tailor weaver painter potter
			clerk postman gardener`),
		"did":    strings.Fields(`mended borrowed sold polished weighed sketched inherited cleaned admired measured repaired carried`),
		"thing":  strings.Fields(`kettle basket bench blanket clock ladder table rope map wheel umbrella curtain chair saddle`),
		"adj":    strings.Fields(`old broken small heavy painted wooden quiet narrow`),
		"place":  strings.Fields(`orchard river bridge hall terrace forest canal courtyard pond meadow station market`),
		"near":   strings.Fields(`behind beside under near beyond`),
		"animal": strings.Fields(`owl fox goose heron cat dog swallow`),
		"moved":  strings.Fields(`slept waited rested sang wandered`),
		"time":   strings.Fields(`Yesterday Later Meanwhile Afterwards Once`),
		"day":    strings.Fields(`Monday Tuesday Wednesday Thursday Friday Saturday Sunday`),
	}
	haystackSentences = []string{
		"The {adj} {who} {did} the {thing} {near} the {place}.",
		"{time}, the {who} {did} the {adj} {thing}.",
		"The {who} and the {who} {did} the {thing} on {day}.",
		"The {animal} {moved} {near} the {place} until the {who} came home.",
		"On {day}, the {adj} {animal} {moved} {near} the {place}.",
		"The {who} asked the {who} about the {adj} {thing}.",
		"Nobody {did} the {thing} {near} the {place}.",
	}
)

// The needle says what somebody calls a place, and the answer begins with the same words: the place comes right before the code, so that
// one step back from the code tells whose it is. The question names neither.
const (
	needleSentence   = "{Kind} call the {place} {code}."
	questionSentence = "What do they call it?"
	answerPrefix     = "{Kind} call the {place}"
)
