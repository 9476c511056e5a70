"""What the written prompts ask for: task templates by kind, passages sentence by sentence, follow-up turns. Data only.

A slot is `[word]` (a draw from a bank), `[word2]` (another draw from the same bank) or `[name:low-high]` (a whole
number). The same slot twice in one prompt is the same value; a capital first letter capitalises what is filled in.
Knows nothing of how slots are filled.
"""

from __future__ import annotations

WRITING = (
    "Write [form] about [topic].",
    "Write [form] about [object] [setting].",
    "Write [form] in which [animal] meets [animal2] [setting].",
    "Could you write [form] about [everyday] in a [tone] tone?",
    "I need a [tone] e-mail of about [n:60-200] words to [name], who asked me about [everyday].",
    "Draft an invitation to [event] at [venue] on [weekday], [month] [day:2-28].",
    "Write a toast for [name], who has been interested in [topic] for [years:3-40] years.",
    "Give me [n:3-9] catchy titles for an article about [topic].",
    "Continue this story: [Name] opened the door and found [object]. It was [weekday], and nobody else was at home.",
    "Write a review of a [product] that is [tone] and mentions one advantage and one drawback.",
    "Help me write a short bio. I live in [city], I work at a [trade] and I like [topic].",
    "Compose a message to my neighbours about [home]. Make it [tone].",
    "Describe [object] so that a reader can see, hear and smell it.",
)
ROLEPLAY = (
    "Pretend you are [role]. Tell me what you think about [topic].",
    "You are [role]. I walk in and ask you about [topic]. Stay in character.",
    "Act as [role] and give me advice about [everyday].",
    "Let's play a game: you are [role], [setting]. Describe where we are and ask me what I want to do.",
    "Imagine [role] and [role2] arguing about [topic]. Write their conversation.",
    "Be [role] for a moment. How would you explain [stem] to [audience]?",
    "Answer as [role]: what was the most surprising thing that happened to you [setting]?",
    "I want to practise a conversation about [work]. You play [name], my manager. Begin.",
    "Play the part of a customer of a [trade] who is unhappy with a late delivery. I will answer you.",
    "Speak like [role] and tell me how you found [object].",
)
REASONING = (
    "[Name] is taller than [name2], and [name2] is taller than [name3]. Who is the shortest? Explain your reasoning.",
    (
        "[Name], [name2] and [name3] finished a race. [Name] was not first, and [name3] came right after [name2]. "
        "In which order could they have finished?"
    ),
    "If today is [weekday], which day of the week will it be in [n:9-100] days? Show how you got there.",
    (
        "A shop sells [goods] only on [weekday] and [goods2] only on [weekday2]. [Name] bought both. "
        "What can you say about when [name] went shopping?"
    ),
    "All members of the club like [topic]. [Name] does not like [topic]. Can [name] be a member? Why or why not?",
    "What are the strongest arguments for and against [society]?",
    "[Name] says that people who enjoy [topic] are always happier. What is wrong with that argument?",
    "Compare [stem] with [stem2]. What do they have in common, and where does the comparison break down?",
    (
        "You have [n:3-9] boxes and only one of them holds [object]. Each box but one has a label that is wrong. "
        "What would you ask first, and why?"
    ),
    "What would happen if everybody suddenly stopped caring about [topic]? Think step by step.",
    "Which is the odd one out: [goods], [goods2], [goods3] or [animal]? Give a reason.",
    "A friend has to choose between spending the weekend on [everyday] and on [everyday2]. How should they decide?",
    (
        "[Name] left [city] at [h:6-11] in the morning and arrived [n:2-9] hours and [m:5-55] minutes later. "
        "Was it already afternoon? Explain."
    ),
)
MATHS = (
    (
        "[Name] buys [a:3-40] [goods] at [p:2-15] euros each and pays with a [note:700-1000]-euro voucher. "
        "How much is left on the voucher?"
    ),
    "A train covers [d:120-900] kilometres in [t:2-9] hours. What is its average speed?",
    "A [trade] makes [a:20-400] [goods] a day. How many does it make in [n:3-30] days?",
    "[Name] has [a:40-90] [goods] and gives [b:3-30] of them to [name2]. How many does [name] have left?",
    "A rectangle is [a:3-60] cm long and [b:2-40] cm wide. Find its area and its perimeter.",
    "A [product] costs [p:20-300] euros. It is reduced by [r:5-60] percent. What is the new price?",
    "What is [a:12-999] + [b:12-999] - [c:2-11]? Show your work.",
    "Solve for x: [a:2-12]x + [b:1-40] = [c:41-200].",
    "[Name] reads [a:8-45] pages a day. The book has [b:150-900] pages. How many days does it take to finish it?",
    "If [a:2-9] workers paint a fence in [t:3-20] hours, how long would [b:10-18] workers need at the same pace?",
    (
        "[Name] saves [a:15-200] euros a month and has already saved [b:50-900] euros. "
        "How much will there be after [n:4-36] months?"
    ),
    "A bag holds [a:2-15] red and [b:2-15] blue marbles. What is the probability of drawing a red one?",
    "Calculate [a:11-99] times [b:11-99] and explain a trick to do it in your head.",
    "The sum of two numbers is [a:40-120] and their difference is [d:2-30]. What are the numbers?",
    "A recipe for [n:2-6] people needs [g:150-800] grams of flour. How much is needed for [m:7-20] people?",
    "The average of three numbers is [a:30-80]. Two of them are [b:10-40] and [c:10-40]. What is the third?",
    "How many ways are there to choose [k:2-4] of [n:5-12] books?",
    (
        "Put [capital:500-9000] euros into an account at [r:1-7] percent a year. "
        "How much is it after [n:2-12] years with compound interest?"
    ),
)
CODING = (
    "Write a function in [language] that [program].",
    "How would you write a [language] program that [program]? Add comments.",
    "Write a [language] function that [program], and then a few tests for it.",
    "Show me two different ways to write [language] code that [program]. Which one is faster?",
    "What does this code do, and does it have a bug?\n\n[snippet]\n\nI found it in [project].",
    "Improve this code and explain what you changed:\n\n[snippet]\n\nIt is part of [project].",
    "I am new to [language]. Explain [software] with a short example.",
    "Plan the files and functions of [project] written in [language].",
    "What are common mistakes with [software] in [language]?",
    "Write an SQL query that lists the [n:3-20] customers who bought the most [goods].",
    "Explain [software] to [audience].",
    "Write an HTML page for [project] with a heading, a table and a footer.",
    "Which data structure would you use for [project], and why?",
    (
        "My [language] program for [project] is slow when there are more than [n:2-90] thousand entries. "
        "Where should I look first?"
    ),
)
EXTRACTION = (
    "List all names, places and times in this text:\n\n[passage]",
    "[passage]\n\nFrom the text above, give every number and say what it stands for.",
    "Read the text and answer: who, what, when and where?\n\n[passage]",
    "Turn the facts of this passage into a table with two columns:\n\n[passage]",
    "Extract the key facts from the following text as JSON.\n\n[passage]",
    "Is the mood of this text positive, negative or neutral? Quote the words that tell you.\n\n[passage]",
    "[passage]\n\nWhich of these facts would you put into a calendar, and how?",
    "What question does this text leave open?\n\n[passage]",
)
STEM = (
    "Explain [stem] to [audience].",
    "What are the most important facts about [stem]?",
    "Describe [science] step by step.",
    "What is a simple experiment or exercise that shows something about [science]?",
    "What do people often get wrong about [stem]?",
    "Tell me about [nature]. Why do scientists find the subject interesting?",
    "Give me an analogy for [stem].",
    "How is [mathematics] used in everyday life? Answer for [audience].",
    "What are the advantages and disadvantages of [technology]?",
    "Write [n:3-8] quiz questions about [stem], with the answers at the end.",
    "Define the main terms somebody needs to understand [stem].",
    "What open questions do researchers still have about [science]?",
    "How did our understanding of [science] change over the last [n:2-30] decades?",
)
HUMANITIES = (
    "Give a short overview of [history].",
    "Why did [history] matter? Answer for [audience].",
    "What were the causes and the consequences connected with [history]?",
    "Write a short essay on [humanities].",
    "Discuss [thought] from two opposing points of view.",
    "How would you introduce [arts] to [audience]?",
    "What can we learn today from [history]?",
    "Compare [humanities] and [humanities2].",
    "What question about [thought] would start a good discussion? Give your own answer too.",
    "How is [society] seen differently by older and younger people?",
    "Recommend a way to begin with [arts] and say what to look or listen for.",
)
REWRITING = (
    "Summarise this text in at most [n:2-3] sentences:\n\n[passage]",
    "Translate into [target]:\n\n[passage]",
    "Rewrite the following text in a more [tone] tone:\n\n[passage]",
    "[passage]\n\nMake this shorter without losing any fact.",
    "Give this text a headline and one sentence of summary.\n\n[passage]",
    "Rewrite this for [audience]:\n\n[passage]",
    "Turn this text into bullet points.\n\n[passage]",
    "Correct and improve this text if needed:\n\n[passage]",
    'Translate into [target] and explain one word of it: "See you on [weekday] in [city], [name]!"',
    "Turn this text into a short message to [name4]:\n\n[passage]",
)
ANSWERS = (
    "What should I know about [topic]?",
    "Tell me something interesting about [topic].",
    "I have heard a lot about [topic]. Is it worth my time?",
    "How do I get started with [everyday]?",
    "What is the best way to think about [topic]?",
    "Can you answer a question about [topic] in one paragraph? What matters most?",
    "Name [n:3-7] myths about [topic] and correct them.",
    "Why do people care about [topic]?",
    "What is [city] known for, and when is a good time to go?",
    "what is the difference between [software] and [software2]",
    "tell me about [topic]",
)
PLANS = (
    "Make a list of [n:4-12] tips about [everyday].",
    "Plan [days:2-7] days in [city] for someone who likes [topic].",
    "Make a weekly plan for learning about [topic], with [n:15-90] minutes a day.",
    "I keep forgetting things. Write a checklist to do with [everyday].",
    "Outline a talk of [n:5-40] minutes about [topic] for [audience].",
    "I want to organise [event] at [venue] for [n:10-120] people. What do I have to do, in which order?",
    "Suggest [n:3-10] ideas for a present for [role] who is fond of [topic].",
    "Make a shopping list and a short recipe for [n:2-9] people. It should fit [cooking].",
    "List the pros and cons of [topic].",
    "Create a timetable for a [weekday] with work, [everyday] and some rest.",
)
CHAT = (
    "Hi! How are you today?",
    "Hello there",
    "Good morning! It's [weekday] and I am in [city]. Any ideas for today?",
    "Hey, can you help me with [topic]?",
    "I'm [name]. Nice to meet you! What can you do?",
    "Thanks, that was helpful. Can we talk about [topic] now?",
    "I had a long day at the [trade]. Cheer me up a little.",
    "I feel nervous because of [work]. What should I do?",
    "My friend [name] and I disagree about [everyday]. What would you say?",
    "I'm bored. Tell me a joke about [animal] and [animal2].",
    "What's your opinion on [topic]?",
    "Guess what: [name] gave me [object]! What should I do with it?",
    "I can't decide between [everyday] and [everyday2] this evening. Ask me some questions to find out.",
    "Good night! Tell me a very short bedtime story about [animal] [setting].",
    "I am worried about [health]. Any advice?",
    "Do you know anything about [topic]? I have to talk about it on [weekday].",
)
KINDS = {
    "writing": WRITING,
    "roleplay": ROLEPLAY,
    "reasoning": REASONING,
    "maths": MATHS,
    "coding": CODING,
    "extraction": EXTRACTION,
    "stem": STEM,
    "humanities": HUMANITIES,
    "rewriting": REWRITING,
    "answers": ANSWERS,
    "plans": PLANS,
    "chat": CHAT,
}

FORM_WISHES = (
    "Keep it short.",
    "Use no more than [w:50-250] words.",
    "Please use simple words.",
    "Give an example.",
    "Use bullet points.",
    "End with a question.",
    "Begin with a one-sentence summary.",
    "Go into detail.",
    "Write two or three paragraphs.",
    "Avoid jargon.",
    "Make it [tone].",
    "It is for [audience].",
    "Thank you!",
    "Use headings.",
    "I already know the basics.",
    "Be honest if something is uncertain.",
)
CODE_WISHES = (
    "Keep it short.",
    "Explain each step.",
    "Use the standard library only.",
    "Handle empty input.",
    "Say what it costs in time and memory.",
    "Use clear names.",
    "Show an example of its use.",
    "Code only, please.",
    "I am a beginner.",
    "It must cope with [n:2-90] million entries.",
    "Say what could go wrong.",
    "Thanks!",
)
# A wish for the form of the answer; after a passage or a sum it would read oddly, so those kinds have none.
WISHES = {
    "writing": FORM_WISHES,
    "stem": FORM_WISHES,
    "humanities": FORM_WISHES,
    "answers": FORM_WISHES,
    "plans": FORM_WISHES,
    "coding": CODE_WISHES,
}

# A scene is a passage: one sentence is drawn for each place; an empty one leaves its place out.
SCENES = (
    (
        (
            "[Venue] in [city] invites everybody to [event] on [weekday], [month] [day:2-28].",
            "On [weekday], [month] [day:2-28], [event] will take place at [venue] in [city].",
        ),
        (
            "Doors open at [h:8-11] a.m. and there is room for [n:25-180] visitors.",
            "It starts at [h:3-8] p.m. and lasts about [n:60-150] minutes.",
        ),
        (
            "Tickets cost [p:4-25] euros; children pay half.",
            "Admission is free, but please sign up before [month].",
            "",
        ),
        (
            "[Name], who organises it for the [k:4-12]th time, asks for volunteers.",
            "Questions go to [name] at the front desk.",
            "",
        ),
    ),
    (
        (
            "I bought this [product] in [month] and have used it almost every day since.",
            "After [n:2-11] weeks with this [product] I can say that it does what it promises.",
        ),
        (
            "It is lighter than I expected, and it arrived within [d:2-9] days.",
            "The quality is good for the price of [p:19-180] euros.",
        ),
        ("Unfortunately the instructions are hard to read.", "One part broke, but the shop replaced it at once.", ""),
        ("My sister [name] wants one too.", "I would buy it again.", "For [p2:20-90] euros less it would be perfect."),
    ),
    (
        (
            "The [trade] that [name] and [name2] run in [city] was founded in [year:1890-2015].",
            "A [trade] in [city] announced on [weekday] that it will hire [n:4-60] people.",
        ),
        ("It began with [k:2-9] employees and a single room.", "Last year it sold [s:2-90] thousand [goods]."),
        (
            "Sales grew by [r:3-35] percent, mostly because of orders from abroad.",
            "Rising costs remain a problem, says [name3].",
            "",
        ),
        ("A second shop is to open in [city2] in [month].", "The owners want to invest in [technology] next.", ""),
    ),
    (
        ("Hi [name], thanks for your message about [work].", "Dear [name], I hope you had a good weekend."),
        (
            "Could we move our meeting from [weekday] to [weekday2]?",
            "The meeting on [weekday] will be in room [n:101-320] instead of the usual one.",
        ),
        ("[Name2] will join us and bring the figures for [month].", "Please send me your notes by [h:2-6] p.m.", ""),
        ("We still have to decide who pays for the [k:10-60] [goods].", "I also have a question about [everyday].", ""),
        ("Best wishes, [name3]", "See you soon, [name3]"),
    ),
    (
        (
            "We reached [city] late on [weekday], tired and hungry.",
            "Our trip to [city] began with rain and a late bus.",
        ),
        (
            "[Name] had forgotten the [product] at home, so we spent an hour looking for a shop.",
            "The small hotel cost [p:35-140] euros a night and smelled of coffee.",
        ),
        (
            "The next morning we walked [k:6-24] kilometres along the river and saw [animal].",
            "In the evening we found a place with live music and stayed until midnight.",
            "",
        ),
        ("I would go back at once, but not in [month].", "Next time we will take the train and stay [d:3-9] days."),
    ),
    (
        (
            "Many people are interested in [nature], but few have looked closely.",
            "For a school project, [name] studied [nature] near [city] for [n:3-20] weeks.",
        ),
        (
            "The group took [k:20-400] photographs and counted everything twice.",
            "Most of the notes were made early in the morning, when it is quiet.",
        ),
        (
            "In [month] the numbers were [r:5-60] percent lower than the year before.",
            "The dry [month] seems to have changed a lot.",
            "",
        ),
        ("The results will be shown at [venue].", "[Name2] now wants to repeat the study in [city2].", ""),
    ),
)

FOLLOWUPS = (
    "Can you shorten that to three sentences?",
    "Now explain the second point for a child.",
    "Why?",
    "Can you give me an example?",
    "Rewrite it in a more formal tone.",
    "What is the most important part of that?",
    "Are you sure? Please check your answer.",
    "Turn your answer into bullet points.",
    "Make it funnier.",
    "What would somebody say who disagrees?",
    "Can you say that in simpler words?",
    "Go on, please.",
    "Please add one more paragraph.",
    "What should I do first?",
    "Translate your answer into French.",
    "Which part of this is uncertain?",
    "Summarise what you just said in one sentence.",
    "How did you get there?",
    "Give me three alternatives.",
    "Write it again, but half as long.",
    "What are the downsides?",
    "Explain the last part in more detail.",
    "Can you put that into a table?",
    "And what if I have very little time?",
    "How would that change for a larger group of people?",
    "Please ask me a question about this to test me.",
    "Give it a title.",
    "What does that cost, roughly?",
    "Now write the opposite point of view.",
    "Thanks! What else should I know?",
    "Replace the example with a different one.",
    "I don't understand. Try again.",
    "Use an analogy from everyday life.",
    "Number the steps, please.",
    "Is there an easier way?",
    "Can you turn that into a short poem?",
    "List the key terms and define each in a few words.",
    "What is a common mistake here?",
    "Write a short e-mail to a friend about this.",
    "Start again with a different idea.",
    "How could I remember this?",
    "Which of these would you choose, and why?",
    "Make the ending happier.",
    "Continue from where you stopped.",
    "Okay, and how does that compare with what people did in the past?",
)
