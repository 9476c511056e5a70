"""What the written prompts are about: topics by field, and the words that fill the other slots. Data only.

Knows nothing of tasks or of how a slot is filled. Every entry reads well after "about" and starts in lower case
unless it is a name; entries of ROLES, OBJECTS and ANIMALS carry their article.
"""

from __future__ import annotations

SCIENCE = (
    "photosynthesis", "plate tectonics", "black holes", "the water cycle", "natural selection", "the periodic table",
    "how vaccines work", "entropy", "the structure of DNA", "radioactive decay", "the greenhouse effect",
    "how magnets work", "the speed of light", "acids and bases", "the phases of the Moon", "surface tension",
    "why the sky is blue", "chemical bonds", "cell division", "static electricity", "the life cycle of a star",
    "buoyancy", "the scientific method", "superconductivity", "how the brain stores memories", "enzymes",
)
MATHEMATICS = (
    "prime numbers", "the Pythagorean theorem", "compound interest", "conditional probability", "derivatives",
    "standard deviation", "logarithms", "matrices", "graph theory", "binary numbers", "the number pi",
    "exponential growth", "complex numbers", "proof by induction", "correlation and causation",
)
TECHNOLOGY = (
    "electric cars", "solar panels", "satellite navigation", "3D printing", "lithium batteries", "touch screens",
    "wind turbines", "fibre-optic cables", "noise-cancelling headphones", "heat pumps", "machine learning",
    "self-driving vehicles", "e-readers", "drones", "microwave ovens", "satellite internet",
    "smart watches", "image compression", "digital cameras",
)
SOFTWARE = (
    "version control", "unit testing", "relational databases", "recursion", "hash tables", "REST interfaces",
    "regular expressions", "garbage collection", "code review", "public-key encryption", "caching",
    "continuous integration", "object-oriented programming", "functional programming", "threads and processes",
    "passwords and two-factor login", "open-source licences", "spreadsheets", "the command line", "web accessibility",
)
HISTORY = (
    "the Roman roads", "the Silk Road", "the French Revolution", "the printing press", "the Industrial Revolution",
    "the fall of Constantinople", "the Black Death", "the Apollo programme", "the Vikings", "the Library of Alexandria",
    "the Meiji Restoration", "the Berlin Wall", "the Inca Empire", "the history of tea", "the suffrage movement",
    "the Great Depression", "the pyramids of Giza", "the Mali Empire", "the Congress of Vienna", "the Suez Canal",
)
COOKING = (
    "sourdough bread", "vegetarian curry", "fresh pasta", "meal prepping", "knife skills", "roasting vegetables",
    "making soup from leftovers", "pancakes", "fermented foods", "cooking rice", "chocolate cake", "salad dressings",
    "cooking for one", "grilling fish", "baking without eggs", "homemade pizza", "spices", "lunch boxes",
    "stir-frying", "coffee at home",
)
TRAVEL = (
    "a weekend in Lisbon", "travelling by night train", "packing light", "hiking in Norway", "street food in Bangkok",
    "a road trip through Scotland", "camping with children", "jet lag", "travelling alone", "museums in Vienna",
    "a cycling holiday", "a week in Kyoto", "island hopping in Greece", "learning a few phrases before a trip",
    "budget airlines", "a safari in Kenya", "winter in Iceland", "the Andes", "choosing a hostel",
)
HEALTH = (
    "sleeping better", "back pain from sitting", "drinking enough water", "stress at work", "seasonal allergies",
    "a balanced breakfast", "meditation", "stretching", "screen time", "quitting sugar", "washing hands",
    "eye strain", "healthy snacks", "walking every day", "first aid at home", "sunburn", "regular check-ups",
)
WORK = (
    "job interviews", "remote work", "giving feedback", "asking for a raise", "running a meeting", "time management",
    "writing a cover letter", "changing careers", "dealing with a difficult colleague", "public speaking",
    "working in a team", "burnout", "onboarding a new colleague", "customer service", "freelancing",
    "setting priorities", "networking", "internships",
)
SPORT = (
    "running a first marathon", "swimming technique", "the rules of cricket", "rock climbing", "yoga", "table tennis",
    "strength training", "the offside rule", "cross-country skiing", "judo", "chess openings", "basketball tactics",
    "cycling up hills", "rowing", "team spirit", "warming up", "surfing",
)
ARTS = (
    "watercolour painting", "jazz", "black-and-white photography", "the sonnet", "film noir", "impressionism",
    "learning the guitar", "opera", "street art", "pottery", "the novel of letters", "ballet", "animation",
    "choir singing", "science fiction", "museum design", "haiku", "calligraphy", "stage fright", "folk music",
)
FAMILY = (
    "bedtime routines", "pocket money", "a birthday party for a six-year-old", "moving house with children",
    "sibling rivalry", "choosing a school", "family traditions", "grandparents", "picky eaters", "homework",
    "reading aloud", "teenagers and phones", "a rainy Sunday at home", "adopting a dog", "planning a wedding",
    "long-distance friendship",
)
FINANCE = (
    "a monthly budget", "saving for emergencies", "index funds", "credit cards", "inflation",
    "renting or buying a home",
    "student loans", "retirement savings", "taxes for the self-employed", "insurance", "mortgages", "splitting bills",
    "comparing electricity prices", "online fraud", "negotiating a price",
)
NATURE = (
    "honey bees", "coral reefs", "rainforests", "bird migration", "mushrooms", "wolves", "deserts", "tides",
    "volcanoes",
    "hedgehogs", "octopuses", "old trees", "thunderstorms", "glaciers", "butterflies", "the deep sea", "bats",
    "wildflowers", "rivers", "earthworms", "northern lights", "elephants",
)
HOME = (
    "house plants", "a vegetable garden", "removing stains", "painting a room", "composting", "tidying a wardrobe",
    "a leaking tap", "saving energy at home", "small kitchens", "a balcony garden", "mending clothes", "recycling",
    "a home office", "a squeaky door", "hosting a dinner", "spring cleaning",
)
SOCIETY = (
    "public libraries", "voting", "city planning", "public transport", "volunteering", "the news", "free speech",
    "minority languages", "privacy online", "social media", "universal basic income", "the four-day week",
    "school uniforms", "advertising", "migration", "food waste", "tourism", "zoos",
)
THOUGHT = (
    "free will", "the trolley problem", "stoicism", "what makes a good life", "utilitarianism", "personal identity",
    "the ship of Theseus", "Plato's cave", "happiness", "courage", "gratitude", "forgiveness", "boredom",
    "the meaning of fairness", "Confucian ethics", "scepticism",
)
FIELDS = {
    "science": SCIENCE, "mathematics": MATHEMATICS, "technology": TECHNOLOGY, "software": SOFTWARE,
    "history": HISTORY, "cooking": COOKING, "travel": TRAVEL, "health": HEALTH, "work": WORK, "sport": SPORT,
    "arts": ARTS, "family": FAMILY, "finance": FINANCE, "nature": NATURE, "home": HOME, "society": SOCIETY,
    "thought": THOUGHT,
}

AUDIENCES = (
    "a ten-year-old", "a complete beginner", "a curious teenager", "my grandmother", "a university student",
    "a busy manager", "someone who has never heard of it", "an expert in another field", "a new colleague",
    "my study group", "readers of a local newspaper", "a friend over coffee",
)
TONES = (
    "friendly", "formal", "funny", "calm", "lively", "matter-of-fact", "poetic", "dry", "hopeful",
    "slightly ironic", "warm", "serious",
)
ROLES = (
    "a ship's captain", "a museum guide", "a grumpy wizard", "a patient maths teacher", "a head chef",
    "a detective in the 1920s", "a sports commentator", "a travel agent", "a medieval blacksmith",
    "a robot who has just woken up", "a librarian", "a job interviewer", "a lighthouse keeper", "a pirate",
    "a personal trainer", "a botanist", "a radio host", "a philosopher of ancient Athens", "a friendly dragon",
    "a financial adviser", "an astronaut on Mars", "an old sailor", "an innkeeper", "a news anchor", "a gardener",
    "an art critic", "a talking cat", "a nurse", "a mountain guide", "a time traveller",
)
OBJECTS = (
    "an old suitcase", "a broken umbrella", "a red bicycle", "a brass key", "a letter without a sender", "a wristwatch",
    "a jar of honey", "a wooden boat", "a piano", "a lost glove", "a paper map", "a lantern", "a stone bridge",
    "a bookshop", "a garden gate", "a train ticket", "a snow globe", "a clockwork bird",
)
ANIMALS = (
    "a fox", "an owl", "a tortoise", "a crow", "a hedgehog", "a whale", "a sparrow", "a lazy cat", "a goat", "an otter",
    "a mouse", "a snail",
)
SETTINGS = (
    "in a small fishing village", "on a night train", "in an empty theatre", "during a long winter",
    "on a space station", "in a busy kitchen", "at the edge of a forest", "in a city without cars",
    "in a lighthouse", "on market day", "at a school reunion", "in a library after closing time",
)
FORMS = (
    "a short story", "a poem", "a blog post", "a short speech", "a diary entry", "a dialogue", "a newspaper article",
    "a letter to a friend", "a product description", "a fable", "the opening paragraph of a novel", "a limerick",
    "a podcast script", "a short essay", "a song text with two verses and a chorus", "a scene for the stage",
)
LANGUAGES = ("Python", "JavaScript", "Java", "C", "C++", "Go", "Rust", "TypeScript", "Ruby", "Kotlin")
TARGETS = ("French", "Spanish", "German", "Italian", "Portuguese", "Dutch")
NAMES = (
    "Anna", "Ben", "Carla", "David", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kofi", "Lena", "Mei", "Nadia",
    "Oscar", "Priya", "Rosa", "Samir", "Tom", "Yuki",
)
CITIES = (
    "Porto", "Leeds", "Gdansk", "Nairobi", "Osaka", "Quito", "Bergen", "Toronto", "Lyon", "Izmir", "Cork", "Graz",
    "Chennai", "Perth", "Montevideo", "Ghent",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)
GOODS = (
    "apples", "notebooks", "candles", "tickets", "bottles of juice", "bags of flour", "pencils", "tiles", "light bulbs",
    "roses", "postcards", "bread rolls", "batteries", "screws", "tea bags", "T-shirts",
)
VENUES = (
    "the public library", "the community centre", "the old town hall", "the swimming pool", "the city museum",
    "the botanical garden", "the music school", "the youth club",
)
EVENTS = (
    "a book fair", "a repair workshop", "a chess evening", "a jazz concert", "a first-aid course", "a plant swap",
    "a cooking class", "a film night", "a photography exhibition", "a language exchange",
)
PRODUCTS = (
    "backpack", "kettle", "desk lamp", "bicycle pump", "pair of headphones", "rain jacket", "swivel chair",
    "coffee grinder", "tent", "vacuum cleaner", "keyboard", "water bottle",
)
TRADES = (
    "bakery", "bicycle shop", "software company", "furniture maker", "dairy farm", "ferry line", "print shop",
    "garden centre", "toy maker", "solar installer",
)
PROGRAMS = (
    "checks whether a word is a palindrome", "counts how often each word occurs in a text file",
    "finds the second-largest number in a list", "merges two sorted lists", "converts Roman numerals to integers",
    "removes duplicates from a list but keeps the order", "computes the first n Fibonacci numbers",
    "checks whether brackets are balanced", "reverses the words of a sentence", "finds all anagrams in a list of words",
    "parses a CSV line with quoted fields", "rotates a square matrix by ninety degrees",
    "tests whether a number is prime", "groups a list of records by one of their fields",
    "computes the moving average of a series", "converts a number of seconds into hours, minutes and seconds",
    "does a binary search in a sorted array", "finds the longest common prefix of several strings",
    "flattens a nested list", "validates an e-mail address in a simple way", "simulates rolling two dice",
    "finds the shortest path in a grid", "implements a queue with two stacks", "encodes text with run-length encoding",
    "transposes a table", "sums the digits of a number", "lists all files of a folder by size",
    "retries a failing call with growing pauses", "keeps the ten largest values of a stream",
    "computes the greatest common divisor of two integers",
)
PROJECTS = (
    "a to-do list", "a small weather page", "a quiz game", "a budget tracker", "a recipe collection", "a chat room",
    "a photo gallery", "a typing trainer", "a library catalogue", "a timer for workouts", "a URL shortener",
    "a notes app", "a bus timetable", "a flash-card trainer",
)
SNIPPETS = (
    "def average(values):\n    total = 0\n    for v in values:\n        total += v\n    return total / len(values)",
    "def last(items):\n    return items[len(items)]",
    "def add(item, items=[]):\n    items.append(item)\n    return items",
    "for i in range(10):\n    if i % 2 == 0:\n        continue\n    print(i * i)",
    "def count(text, letter):\n    n = 0\n    for c in text:\n        if c == letter:\n            n = 1\n    return n",
    "def fact(n):\n    return n * fact(n - 1)",
    "names = open('names.txt').read().split(',')\nfor name in names:\n    print('Hello ' + name)",
    "words = [w for w in text.lower().split() if len(w) > 3]\nprint(sorted(set(words)))",
    "def is_leap(year):\n    return year % 4 == 0",
    "SELECT name, COUNT(*) FROM orders\nJOIN customers ON orders.customer = customers.id\nGROUP BY name;",
    "x = input('Number: ')\nif x > 10:\n    print('big')",
    "def find(items, wanted):\n    for i, item in enumerate(items):\n        if item == wanted:\n            print(i)",
)
