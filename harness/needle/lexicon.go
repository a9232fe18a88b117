package needle

// The haystack's sentences: plain, in the past tense, each complete in itself. No word of a template occurs in them.
var haystackGrammar = newGrammar(haystackPatterns, haystackWords)

const haystackPatterns = `
{when}, {who} {did} {thing} {where}.
{who} {did} {thing} {where} {because}.
{who} {did} {thing} and {then}.
{who} and {whom} {did} {thing} {when}.
{weather}, and {who} {then}.
{weather} {when}, so {who} {then}.
Although {weather}, {who} {did} {thing}.
{animal} {moved} {where} while {who} {did} {thing}.
{animal} {moved} {where} {when}, and nobody {minded}.
{thing} {stood} {where} {long}.
{who} had {felt} about {topic} {long}.
{topic} {became} {quality} {when}.
{who} told {whom} about {topic}, although {weather}.
{when}, {topic} {became} {quality} for {whom}.
{who} bought {food} {where} and shared it with {whom}.
{food} cost more than {thing} {when}.
There was {food} {where}, but {who} {then}.
{whom} asked {who} for {food} {because}.
{who} preferred {food} to {food2} {because}.
{plant} grew {where} {long}, {quality2} than {plant2}.
{who} planted {plant} {where} {when}.
{building} {stood2} {long} {because}.
{when}, {building} smelled of {food2} and {plant2}.
{who} walked from {building} to {building2} {because}.
The road between {building} and {building2} was {quality} {when}.
{who} {knew} that {weather} {when}.
{whom} knew how to mend {thing}, yet {who} {then}.
{music} drifted from {building} {when} while {animal} {moved} {where}.
{who} learned {craft} from {whom} {long}.
{craft2} took {who} {while} and {thing}.
`

// agreementGrammar's sentences begin as none of haystackGrammar's can, so that the split's haystacks have no sentence of the others'.
var agreementGrammar = newGrammar(`
It seems that {who} {did} {thing} {where}.
It seems that {weather} {when}.
Some say that {who} {did} {thing} {because}.
Some say that {animal} {moved} {where} {when}.
Once again {who} {did} {thing} {where}.
Once again {weather}, and {who} {then}.
Nobody wondered why {who} {did} {thing} {when}.
Nobody wondered why {thing} {stood} {where}.
For years {who} had {felt} about {topic}.
For years {building} {stood2} {because}.
Meanwhile {who} asked {whom} about {topic}.
Meanwhile {music} drifted from {building} to {building2}.
Not far from {building}, {plant} grew {long}.
Not far from {building}, {who} bought {food} from {whom}.
Anyone fond of {food} went to {building2} {when}.
Anyone fond of {plant2} envied {whom} {long}.
If {weather}, then {who} {then}.
Unlike {whom}, {who} preferred {food} to {food2}.
Unlike {whom}, {who} learned {craft} {long}.
At least {craft2} took {while}, and {who} {then}.
`, haystackWords)

var haystackWords = map[string]string{
	"who": `
the baker; the old fisherman; a young apprentice; the schoolteacher; the postmaster; the miller's daughter;
a tired nurse; the clockmaker; the beekeeper; the mayor; three students; the village doctor; a retired judge; the cook;
two brothers; the shepherd; the bookbinder; a quiet widow; the station master; the carpenter; the glazier; my uncle;
the tailor; an impatient lawyer; the weaver; the youngest cousin; a visiting geologist; the ferryman; the orchard owner;
the choirmaster; a cheerful painter; the shopkeeper; the watchmaker's niece; an elderly botanist; the blacksmith;
the innkeeper; both sisters; the new pharmacist; a travelling potter; the gravedigger`,
	"whom": `
the neighbours; her grandmother; the tax collector; a group of children; the parish priest; his former teacher;
the twins; the harvest workers; a stranger; the council; the farmhands; some tourists; their landlord; the night porter;
a passing dentist; the whole family; an old friend; the historian; the surveyor; a dozen guests; the gardeners;
the new tenants; a patient clerk; the mountaineers' cook; the local newspaper; the orchestra's treasurer`,
	"did": `
mended; borrowed; sold; polished; wrapped up; weighed; sketched; misplaced; inherited; cleaned; auctioned off;
photographed; lifted; admired; measured; repaired; described; carried; unpacked; examined; traded; rescued; oiled;
dusted; set aside; asked about; complained about; rolled up; praised; returned`,
	"thing": `
a copper kettle; a wicker basket; an oak bench; a woollen blanket; a jar of buttons; a bundle of reeds;
the broken clock; a pair of boots; an iron stove; the kitchen table; a coil of rope; a straw hat; a map of the valley;
a heap of bricks; the wheelbarrow; a set of spoons; an umbrella; the garden hose; a linen curtain; a ladder;
a stack of saucers; the sewing machine; a bag of nails; a porcelain teapot; the church bell; a barrel of vinegar;
a silver thimble; an hourglass; a folding chair; the weathervane; a leather saddle; a box of candles;
the spinning wheel; a marble bust; a picture frame; the millstone; a pair of spectacles; an empty birdcage;
a feather pillow; the long oar`,
	"where": `
behind the orchard; beside the river; under the stone bridge; in the village hall; on the upper terrace;
at the edge of the forest; along the canal; in the narrow courtyard; beneath the chestnut trees; by the duck pond;
on the station platform; in the attic; beyond the vineyard; at the crossroads; in the market square; on the south slope;
beside the quarry; under the awning; in the hayloft; near the allotments; outside the bakery; in the reading room;
along the sea wall; on the gravel path; behind the theatre; at the foot of the hill; in the corner of the meadow;
by the old well; next to the tram stop; on the lower pasture`,
	"when": `
on Tuesday; early in spring; during the harvest; at noon; just after breakfast; late in autumn;
on the first day of June; that winter; before the fair; a week later; towards evening; on a dry Sunday;
in the middle of August; after the thaw; shortly before supper; on market day; during the long holidays; that same year;
the day before the wedding; at the end of the season; around midnight; in the third week of Lent; after the last frost;
every other Thursday; on the eve of the feast; soon after sunrise`,
	"because": `
because the road was muddy; because nobody else volunteered; since the shop had closed; because the roof leaked;
for lack of anything better; because it had been a promise; since the bridge was under repair;
because the price had fallen; to please a distant relative; because the bus was late again; without giving any reason;
since the days were growing shorter; because the stove had gone cold; to win a small bet; because winter was coming;
for the sake of peace; because the evening was mild; since custom demanded it; with more patience than skill;
because the trains had stopped; despite the doctor's advice; out of plain curiosity`,
	"then": `
went home; laughed about it; made tea; started over; said very little; forgot the time; stayed indoors;
took the longer road; fell asleep; kept a diary; counted the swallows; waited for the bus; closed the shutters;
began to sing; looked for a dry place; lit the stove; swept the yard; changed the subject; ate a second helping;
thanked everyone; played cards; read the almanac; cancelled the picnic; moved the chairs`,
	"weather": `
rain drummed on the roofs; snow covered the lanes; the wind came from the east; a pale sun shone;
hail flattened the barley; the river had risen; mist lay over the fields; the heat was hard to bear; clouds hung low;
the first leaves fell; thunder rolled in the distance; the frost held; the sky was clear; a warm breeze blew;
the streets were slippery; dust hung in the air; the days were short; the moon was bright; it drizzled;
the puddles froze`,
	"animal": `
a grey heron; two oxen; a pair of swallows; the innkeeper's dog; a family of hedgehogs; the piebald mare; seven geese;
an old tortoise; a nervous squirrel; the neighbour's goat; a swarm of bees; a lame fox; three magpies; the tabby cat;
a flock of starlings; an owl; the donkey; a young badger; several frogs; a blind mole`,
	"moved": `
waited; slept; circled slowly; foraged; looked for shelter; stood quite still; wandered about; rested;
made a great noise; searched for food; played; hid; paced to and fro; lingered; kept watch; basked`,
	"minded": `
minded; noticed; complained; was surprised; paid attention; knew the reason; gave it a thought; took fright; interfered;
said a word`,
	"stood": `
stood forgotten; gathered dust; lay in the grass; was on display; had been missing; leaned against a wall;
served as a doorstop; drew curious looks; lay under a tarpaulin; was left to rust; hung from a nail;
got in everyone's path`,
	"long": `
for eleven years; all summer; since the flood; for most of the week; longer than anyone expected;
for a whole generation; throughout the winter; until the fair; for a month and a half; from May to October;
for as long as people could recall; until the holidays; the entire afternoon; for several seasons;
ever since the great storm; for ten days`,
	"felt": `
been worried; argued; written long letters; been silent; joked; held mixed feelings; grumbled; lectured; dreamed;
been right; kept careful notes; been asked`,
	"topic": `
the price of flour; the new tram line; the plan for a museum; the eclipse; the quarrel over the hedge;
the history of the valley; the missing weathercock; the shortage of coal; the sheepdog trials; the painting competition;
the rumour of a comet; the coming election; the strike at the quarry; the repair of the organ; the marathon;
the theory of tides; the drought; the flower show; the bishop's visit; the wages of the reapers`,
	"became": `
became; remained; seemed; turned out to be; proved; grew; sounded; was suddenly; was once again; stayed`,
	"quality": `
important; unpopular; too expensive; rather dull; a source of pride; a great nuisance; difficult; very pleasant;
the talk of the town; a little strange; more interesting; almost impossible; less urgent; quite harmless;
a welcome surprise; a matter of taste`,
	"quality2": `
taller; greener; hardier; paler; sweeter; more fragrant; thornier; bushier; healthier; stranger`,
	"food": `
barley soup; a loaf of rye bread; plum jam; roast chestnuts; goat cheese; pickled herring; a slice of almond cake;
fresh figs; smoked trout; ginger biscuits; onion pie; cider; a bowl of lentils; honey; candied orange peel;
mushroom stew; a dozen eggs; blackberry wine; pea soup; warm milk`,
	"food2": `
buttered toast; salted ham; apple tart; garlic; peppermint tea; vegetable broth; oatmeal; cinnamon; fried potatoes;
stewed rhubarb; walnut bread; pepper; cocoa; mustard; boiled cabbage; raspberries`,
	"plant": `
a row of poplars; wild garlic; a lemon tree; purple clover; the climbing roses; an apple tree; tall nettles;
a hedge of hawthorn; lavender; a bed of tulips; runner beans; a crooked willow; white lilac; ferns; a young walnut tree;
sunflowers`,
	"plant2": `
ivy; jasmine; the neighbouring birches; thyme; rosemary; heather; the old yews; dandelions; mint; the dwarf pines;
wisteria; sage`,
	"building": `
the flour mill; the post office; the town museum; the railway station; the primary school; the fish market;
the concert hall; the bath house; the county library; the ferry landing; the stone barn; the printing works;
the customs house; the brick kiln; the orphanage; the glassworks`,
	"building2": `
the hospital; the bakery; the cattle market; the old inn; the salt works; the parsonage; the cinema; the harbour office;
the forester's house; the rope factory; the south gate; the cider press`,
	"stood2": `
stood empty; needed a new roof; was open to visitors; had no heating; was full of pigeons; was lit by gas;
attracted artists; was under scaffolding; looked deserted; housed two families; stayed warm; was run by volunteers`,
	"knew": `
knew; suspected; wrote; insisted; mentioned; was told; had hoped; pretended; dreamed; admitted; guessed; was glad`,
	"music": `
a slow waltz; the sound of scales; a hymn; somebody's whistling; a children's song; an unfinished sonata; laughter;
the noise of rehearsal; a folk tune; an old ballad`,
	"craft": `
glass blowing; to bind volumes; the art of grafting; cheese making; to read the clouds; the names of the stars; Latin;
to whittle; shorthand; to juggle apples; basket weaving; the rules of whist`,
	"craft2": `
the repair; the harvest; the long journey; cooking for forty; a good translation; tuning the organ; the first lesson;
thatching the roof; the survey of the attic; the search for the cat; clearing the snow; pruning`,
	"while": `
two days; the better part of a week; half an hour; a great deal of patience; more than a month; one sleepless night;
an afternoon; five attempts; the whole of Lent; a lifetime`,
}

// fillerGrammar writes the short sentences that make up the last tokens of a length.
var fillerGrammar = newGrammar(fillerPatterns, fillerWords)

const fillerPatterns = `
{what} {verb}.
{what} {verb} {how}.
{what} {verb} {how} {time}.
`

// agreementFillers are fillerGrammar's of the split agreement.
var agreementFillers = newGrammar(`
{then} {what} {verb}.
{then} {what} {verb} {how}.
{then} {what} {verb} {how} {time}.
`, fillerWords)

var fillerWords = map[string]string{
	"then": `
soon; then; later; yet; perhaps`,
	"what": `
dust; smoke; time; snow; everyone; nobody; the hens; the pond; the kettle; the old stairs; the summer`,
	"verb": `
settled; waited; changed; vanished; returned; rested; rose`,
	"how": `
again; slowly; without a sound; as usual; in the end`,
	"time": `
today; at dawn; that week; on Monday; in late March`,
}
