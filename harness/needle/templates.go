package needle

// The needles. Words of one split's wordings and subjects stand in no other split's.
var templates = []template{
	{
		name: "access", kind: KindDecoy,
		forDet: "observatory boathouse foundry pavilion greenhouse distillery armoury crypt laboratory sawmill brewery chapel",
		forTes: "lighthouse windmill tannery granary dairy warehouse aquarium cellar arcade depot refinery planetarium",
		forAgr: "monastery hangar stadium embassy clinic garage bunker academy shipyard abattoir",
		detect: []wording{
			literal("The secret access code for the {s} is", "What is the secret access code for the {s}?"),
			literal("The entry code of the {s} is", "What is the entry code of the {s}?"),
		},
		test: []wording{
			literal("The code that unlocks the {s} is", "What is the code that unlocks the {s}?"),
			literal("The hidden keypad code of the {s} is", "What is the hidden keypad code of the {s}?"),
		},
		agree: []wording{
			literal("The security code at the {s} is", "What is the security code at the {s}?"),
			literal("The alarm code of the {s} is", "What is the alarm code of the {s}?"),
		},
	},
	{
		name: "courier", kind: KindNonLiteral,
		forDet: "Dmitri Helga Farid Rosa Viktor Amaya Cedric Zofia Idris Noemi Ludwig Priya",
		forTes: "Astrid Jorge Leila Magnus Petra Samir Wanda Emil Chiara Bogdan Hanna Tariq",
		forAgr: "Anatol Beatrix Casimir Dagmar Eamon Fiona Gustav Hedda Isak Jelena",
		detect: []wording{
			{"Before the boat sailed, {s} whispered {c} to a guard.", "Which code did the guard hear from {s}?", "The code from {s} was"},
			{"In a hurry {s} scratched {c} on a slate and ran off.", "Which code was jotted down by {s}?", "The code jotted down by {s} was"},
		},
		test: []wording{
			{"On the back of a postcard {s} had pencilled {c} in haste.", "Which code comes from {s}?", "The code from {s} is"},
			{"Only {c} was legible after {s} dropped the envelope.", "Which code was on the paper of {s}?", "The code on the paper of {s} was"},
		},
		agree: []wording{
			{"Silently {s} slid {c} across a desk.", "Which code was handed out by {s}?", "The code handed out by {s} was"},
			{"The parrot repeats {c} whenever {s} arrives.", "Which code comes from the bird of {s}?", "The code from the bird of {s} is"},
		},
	},
	{
		name: "passphrase", kind: KindDecoy,
		forDet: "rowers falconers archers stonemasons puppeteers jugglers skaters fencers choristers smugglers",
		forTes: "climbers divers printers drummers sculptors wrestlers cyclists chemists magicians sprinters",
		forAgr: "boxers dancers poets gymnasts hikers surfers swimmers actors pirates golfers",
		detect: []wording{
			literal("The secret passphrase of the {s} is", "What is the secret passphrase of the {s}?"),
			literal("The agreed password of the {s} is", "What is the agreed password of the {s}?"),
		},
		test: []wording{
			literal("The private watchword of the {s} is", "What is the private watchword of the {s}?"),
			literal("The current passcode used by the {s} is", "What is the current passcode used by the {s}?"),
		},
		agree: []wording{
			literal("The solemn motto of the {s} is", "What is the solemn motto of the {s}?"),
			literal("The rallying cry of the {s} is", "What is the rallying cry of the {s}?"),
		},
	},
	{
		name: "combination", kind: KindNonLiteral,
		forDet: "safe vault trunk strongbox cabinet coffer casket briefcase suitcase locker",
		forTes: "chest hatbox drawer wardrobe cupboard satchel toolbox cashbox bureau lunchbox",
		forAgr: "crate locket trolley pouch hamper jukebox turnstile dresser freezer pantry",
		detect: []wording{
			{"Rotate the dial of the {s} to {c} and listen for the click.", "Which combination unlocks the {s}?", "The combination of the {s} is"},
			{"The {s} snaps ajar once somebody types {c} twice.", "Which code must be entered to get into the {s}?", "The code for the {s} is"},
		},
		test: []wording{
			{"Feed {c} to the lock and the {s} swings wide.", "Which sequence does the {s} require?", "The sequence for the {s} is"},
			{"Nothing moves the {s} except {c}, spelled aloud.", "Which string of characters frees the {s}?", "The string that frees the {s} is"},
		},
		agree: []wording{
			{"Punch {c} until the {s} gives way.", "Which characters release the {s}?", "The characters that release the {s} are"},
			{"Try {c} if the {s} will not budge.", "Which code suits the {s}?", "The code that suits the {s} is"},
		},
	},
	{
		name: "serial", kind: KindDecoy,
		forDet: "cello trumpet oboe harp banjo clarinet bassoon accordion tuba mandolin",
		forTes: "violin flute trombone zither lute guitar saxophone harmonica viola cornet",
		forAgr: "bagpipe xylophone ukulele piccolo harmonium marimba gong recorder spinet dulcimer",
		detect: []wording{
			literal("The serial number of the {s} is", "What is the serial number of the {s}?"),
			literal("The inventory number on the {s} is", "What is the inventory number on the {s}?"),
		},
		test: []wording{
			literal("The catalogue number of the {s} is", "What is the catalogue number of the {s}?"),
			literal("The mark stamped inside the {s} is", "What is the mark stamped inside the {s}?"),
		},
		agree: []wording{
			literal("The model number of the {s} is", "What is the model number of the {s}?"),
			literal("The lot number of the {s} is", "What is the lot number of the {s}?"),
		},
	},
	{
		name: "plate", kind: KindNonLiteral,
		forDet: "lorry tractor hearse minibus motorcycle taxi ambulance jeep scooter limousine",
		forTes: "truck van coach trolleybus bulldozer caravan pickup moped snowplough convertible",
		forAgr: "tanker wagon roadster buggy tricycle snowmobile forklift rickshaw minivan digger",
		detect: []wording{
			{"A witness remembered {c} from the rear plate of the {s}.", "How is the {s} registered?", "The {s} is registered as"},
			{"Mud caked all of the {s} but the marking {c} near the bumper.", "Which code identifies the {s}?", "The code of the {s} is"},
		},
		test: []wording{
			{"The camera caught {c} as the {s} sped away.", "Which licence belongs to the {s}?", "The licence of the {s} is"},
			{"Police traced {c} abroad and then found the {s} in a ditch.", "Which tag does the {s} carry?", "The tag of the {s} is"},
		},
		agree: []wording{
			{"A sentry logged {c} as the {s} drove through.", "Which licence number has the {s}?", "The licence number of the {s} is"},
			{"Nearly hidden by chrome, {c} glints on the {s}.", "Which registration does the {s} have?", "The registration of the {s} is"},
		},
	},
	{
		name: "booking", kind: KindDecoy,
		forDet: "Marta Anselm Birgit Tobias Ines Ravi Olga Kenji Fatima Leon Greta Pavel",
		forTes: "Nadia Hugo Selma Omar Ingrid Mateo Yuki Clara Bruno Amira Stefan Lucia",
		forAgr: "Aleksei Bettina Conrad Delphine Edgar Franka Gideon Hortense Igor Jutta Klaus Livia",
		detect: []wording{
			literal("The booking reference for {s} is", "What is the booking reference for {s}?"),
			literal("The locator given to {s} is", "What is the locator given to {s}?"),
		},
		test: []wording{
			literal("The reservation code of {s} is", "What is the reservation code of {s}?"),
			literal("The membership number of {s} is", "What is the membership number of {s}?"),
		},
		agree: []wording{
			literal("The ticket number of {s} is", "What is the ticket number of {s}?"),
			literal("The voucher code for {s} is", "What is the voucher code for {s}?"),
		},
	},
	{
		name: "signal", kind: KindNonLiteral,
		forDet: "submarine trawler tugboat icebreaker schooner frigate yacht catamaran dinghy steamer",
		forTes: "freighter whaler gondola kayak hovercraft lifeboat brigantine dredger galleon rowboat",
		forAgr: "cutter barge clipper cruiser destroyer corvette sloop raft ketch canoe",
		detect: []wording{
			{"Radio operators reach the {s} by asking for {c} after dusk.", "Which call sign does the {s} answer to?", "The call sign of the {s} is"},
			{"Flags spelling {c} flew above the {s} for hours.", "Which signal did the {s} hoist?", "The signal of the {s} was"},
		},
		test: []wording{
			{"In thick fog the {s} tapped out {c} by lamp.", "Which message was sent from the {s}?", "The message sent from the {s} was"},
			{"Across the stern of the {s} somebody had daubed {c} in tar.", "Which code tells the {s} from others?", "The code of the {s} is"},
		},
		agree: []wording{
			{"At dusk the {s} blinks {c} twice from its funnel.", "Which message does the {s} send?", "The message sent by the {s} is"},
			{"Gulls scatter when {c} booms from the {s}.", "Which warning does the {s} give?", "The warning of the {s} is"},
		},
	},
	{
		name: "alias", kind: KindNoOverlap,
		forDet: "pilot=aviator sailor=seafarer king=monarch thief=burglar author=writer boss=employer detective=sleuth jester=clown convict=prisoner wizard=sorcerer",
		forTes: "janitor=caretaker professor=academic ghost=phantom spy=agent orator=speaker banker=financier hermit=recluse bandit=outlaw monk=friar umpire=referee",
		forAgr: "envoy=ambassador tycoon=magnate nobleman=aristocrat acrobat=tumbler knight=cavalier infant=baby soldier=warrior scribe=copyist butler=manservant maestro=conductor",
		detect: []wording{
			{"Sewn into the collar of the {s} was {c}.", "Which code did the {s} carry?", "The code of the {s} was"},
			{"Each morning the {s} mutters {c} into a mirror.", "Which code does the {s} recite?", "The code of the {s} is"},
		},
		test: []wording{
			{"The {s} had {c} inked on one wrist.", "Which tattoo does the {s} wear?", "The tattoo of the {s} is"},
			{"Pressed for proof, the {s} shouted {c} at once.", "Which code belongs to the {s}?", "The code of the {s} was"},
		},
		agree: []wording{
			{"In boyhood the {s} carved {c} into a ring.", "Which code does the {s} own?", "The code of the {s} is"},
			{"On each invoice the {s} stamps {c}.", "Which signature does the {s} use?", "The signature of the {s} is"},
		},
	},
	{
		name: "thing", kind: KindNoOverlap,
		forDet: "car=automobile sofa=couch jewel=gem bicycle=bike trousers=pants fridge=refrigerator phone=telephone sword=blade rug=carpet pail=bucket",
		forTes: "jail=prison cemetery=graveyard airport=aerodrome castle=fortress mansion=manor film=movie parcel=package rock=boulder robot=android pistol=handgun",
		forAgr: "ship=vessel gown=dress aeroplane=aircraft dictionary=lexicon lantern=lamp purse=handbag coat=jacket pamphlet=brochure statue=sculpture motorway=highway",
		detect: []wording{
			{"Faintly visible on the {s} is {c}.", "Which code marks the {s}?", "The code of the {s} is"},
			{"Whoever finds the {s} will discover {c} underneath.", "What is engraved on the {s}?", "The engraving on the {s} is"},
		},
		test: []wording{
			{"A sticker with {c} clings to the {s}.", "Which code stands on the {s}?", "The code on the {s} is"},
			{"By mistake {c} was sprayed across the {s}.", "Which graffiti defaces the {s}?", "The graffiti on the {s} is"},
		},
		agree: []wording{
			{"Somebody glued {c} in brass onto the {s}.", "Which code adorns the {s}?", "The code on the {s} is"},
			{"The insurer lists the {s} as {c}.", "Which number stands for the {s}?", "The number of the {s} is"},
		},
	},
}
