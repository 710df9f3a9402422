# %% [markdown]
# # 08 · Mystery models
#
# For eight notebooks you took transformers apart whose circuits you knew, or built them yourself. Now
# the labels are gone. Somebody wrote circuits into the weights of three transformers, turned every
# basis that has no meaning, and laid a little noise over it. You get the weights, and nothing else.
# **What is in there?**
#
# **After this notebook you can**
#
# - examine an unknown attention-only model step by step, from its patterns down to its weights;
# - tell a mechanism from a decoy that looks like it in one respect;
# - write a detector, measure how far it can be trusted, and say why it fails where it fails.
#
# **Time:** an afternoon, in pieces if you like. **It builds on** all notebooks before it. In the
# [paper](https://transformer-circuits.pub/2021/framework/index.html) this is the method of the sections
# "Summarizing OV/QK Matrices" and "Analyzing a Two-Layer Model", put to the test.

# %%
import torch

from grader import check, hint, progress, solution
from grader.lab import mystery, pictures, results
from grader.transformer import Transformer

# %% [markdown]
# ## 1 · The task
#
# You write one function, `name_circuits(model)`. It returns a dict with three parts:
#
# ```python
# {
#     "heads": {(0, 0): "previous", (0, 1): "none", (1, 0): "induction", ...},  # (layer, head): label
#     "skip_trigrams": [(3, 7, 11), ...],                  # (source, destination, output) token ids
#     "compositions": [("K", (0, 0), (1, 0)), ...],        # (kind, head read from, head that reads)
# }
# ```
#
# **Heads.** Every head gets one label. A head could fit two of them, so the first line that fits counts:
#
# | label | the head … |
# |---|---|
# | `"previous"` | looks at the position before, whatever stands there |
# | `"positional"` | looks a fixed distance back, two positions or more |
# | `"duplicate"` | looks at earlier copies of the present token |
# | `"induction"` | looks after earlier copies of the present token *and* raises what it finds there |
# | `"anti_copying"` | lowers the token that it sees, wherever it looks otherwise |
# | `"skip_trigram"` | from certain destinations looks at certain sources, and raises certain outputs |
# | `"none"` | none of these: it is dead, scrambled, or does something without a label here |
#
# So a head that looks one back is `"previous"`, even if it also copies what it sees. A head that looks
# after earlier copies and *lowers* what it finds is `"anti_copying"`. One that looks there and writes
# something without order is `"none"`.
#
# **Skip-trigrams.** All combinations that a `"skip_trigram"` head really answers. Remember the bug of
# notebook 03: a source that serves two destinations takes all of its outputs to both.
#
# **Compositions.** `("K", (0, 2), (1, 1))` says that head 1 of layer 1 reads, through its keys, what head
# 2 of layer 0 wrote. `"Q"` is for queries, `"V"` for values. Only pairs that were planted count; they are
# far stronger than chance.
#
# **Points.** `check` asks about six models: your own three, then three that you have never seen. In each,
# each part is graded by its F1 score,
#
# $$ F_1 = \frac{2 \cdot \text{right claims}}{\text{your claims} + \text{true claims}} $$
#
# which is 1 only if you name everything and nothing else. The label `"none"` is no claim. Half of the
# points come from your own models, half from the unseen ones. So two ways lead to points: look long and
# hard at your three models and write down what you found; or write a detector that works on any model.
# The second way earns more, and the first is how you get there.

# %% [markdown]
# ## 2 · Your three models
#
# They have one, two and three layers. They are drawn once, from a seed that stays on your computer, so
# you find the same ones tomorrow. Other learners have others.

# %%
mine = mystery.mine()
for model in mine:
    print(model)

# %% [markdown]
# Two things to note. The third may say `pos_in_stream=True`: then positions are part of the stream from
# the start, and a head can move them. And all of them are small. You can look at every number, if you
# know where to look.
#
# **Practice models** are drawn in the same way, and they come with the truth. There are as many as you
# like: `mystery.practice(number, level)`, where the level is the number of layers. This notebook opens
# one of them, step by step. Do the same with your own.

# %%
practice = mystery.practice(4, level=2)
model = practice.model

# %% [markdown]
# ## 3 · Tools
#
# Everything here you have built before. These are short versions, so that you need not carry the old
# notebooks around. Change them as you like. Your answer may use any function that is defined in a cell of
# this notebook.


# %%
def random_text(model, rows=8, seed=0):
    """Tokens by chance → (rows, n_ctx) int64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.d_vocab, (rows, model.n_ctx), generator=generator)


def repeated_text(model, period=9, rows=8, seed=0):
    """In each row other distinct tokens, over and over → (rows, n_ctx) int64."""
    generator = torch.Generator().manual_seed(seed)
    once = [torch.randperm(model.d_vocab, generator=generator)[:period] for _ in range(rows)]
    return torch.stack(once).repeat(1, model.n_ctx // period + 1)[:, : model.n_ctx]


def mean_pattern(model, tokens):
    """tokens (rows, pos) → (layer, head, dst, src), the mean over the rows."""
    _, cache = model.run_with_cache(tokens)
    return cache.pattern.mean(dim=1)


# %% [markdown]
# ## 4 · Where does each head look?
#
# Begin with pictures, always. First, one text in which nothing repeats in a regular way: random tokens.
# Averaged over many such texts, whatever depends on the *tokens* washes out. What depends on the
# *position* stays.

# %% demo
pictures.patterns(mean_pattern(model, random_text(model, rows=64)))

# %% [markdown]
# A thin bright line below the diagonal is a head that looks a fixed distance back. One step below is a
# previous-token head, more is a positional one. Heads that fade evenly to the right either look
# everywhere alike, or look at tokens.
#
# Now a text in which distinct tokens repeat with a period of nine. If a head looks at earlier copies of
# its token, it looks 9, 18, … back. If it looks *after* earlier copies, it looks 8, 17, … back.

# %% demo
pictures.patterns(mean_pattern(model, repeated_text(model, period=9)))

# %% [markdown]
# Compare the two pictures head by head. A line that was there already is a matter of position. A line
# that is new is a matter of tokens. How far below the diagonal do the new lines start?
#
# Numbers say it exactly. For each head: how much attention lies, on average, on the positions 9, 18, …
# back, and how much on the positions 8, 17, … back?

# %% demo
pattern = mean_pattern(model, repeated_text(model, period=9))
back = torch.arange(model.n_ctx)[:, None] - torch.arange(model.n_ctx)
stripes = {"on copies": (back > 0) & (back % 9 == 0), "after copies": (back > 0) & (back % 9 == 8)}
pictures.matrix(
    torch.stack([(pattern * s)[..., 9:, :].sum(-1).mean(-1).flatten() for s in stripes.values()]),
    rows=list(stripes),
    columns=[f"{layer}.{head}" for layer in range(model.n_layers) for head in range(model.n_heads)],
    axes=("attention", "layer.head"),
    title="Two stripes, one number each",
)

# %% [markdown]
# **Question.** A head that looks a fixed distance back can also show up in this table. How? And what in
# the order of the labels protects you from calling it an induction head?
#
# <details><summary>Answer</summary>
#
# A positional head that looks 8 back would put all of its attention on “after copies”, since with a period
# of nine that is 8 back. It would do so with every period that it happens to meet, and with no other. Two
# remedies: use several periods, or ask for fixed distances first, on random text. The table of labels does
# the second: positional comes before induction.
#
# </details>

# %% [markdown]
# ## 5 · What does it do with what it sees?
#
# Looking in the right place is half of an induction head. The other half is in the full OV circuit,
# `W_E @ W_V @ W_O @ W_U`: row = token seen, column = output. Its diagonal says what a head does to the
# very token that it sees. Compare the diagonal with the mean of each row, since a constant over all
# outputs changes nothing.
#
# The picture puts both halves together, as the paper does with its induction heads: across, the attention
# after copies; up, the mean rise of the token seen. Induction heads stand in the upper right corner.

# %% demo
full_ov = model.W_E @ model.W_V @ model.W_O @ model.W_U  # (layer, head, source, output)
rise = (full_ov.diagonal(0, -2, -1) - full_ov.mean(dim=-1)).mean(dim=-1)
after = (pattern * stripes["after copies"])[..., 9:, :].sum(-1).mean(-1)
pictures.points(
    after.flatten(),
    rise.flatten(),
    labels=[
        f"head {layer}.{head}" if after[layer, head] > 0.5 or abs(rise[layer, head]) > 1 else None
        for layer in range(model.n_layers)
        for head in range(model.n_heads)
    ],
    x_label="attention after earlier copies",
    y_label="rise of the token seen (logits)",
    title="Where it looks, and what it does there",
)

# %% [markdown]
# Who stands at the right, and not at the top? Such a head has a high prefix-matching score, and it is no
# induction head. Real models have them too: the paper on in-context learning mentions heads of large
# models that match prefixes and copy *negatively*, and later work on
# [copy suppression](https://arxiv.org/abs/2310.04625) explains one of them in GPT-2.

# %% [markdown]
# ## 6 · Skip-trigrams
#
# A skip-trigram head needs a large entry in each of its two tables. In the full QK circuit, row =
# destination and column = source: that is where it looks. In the full OV circuit, row = source and
# column = output: that is what it then predicts. Each table of the practice model has $d_\text{vocab}^2$
# entries for each head, so let the machine find the largest.

# %% demo
full_qk = model.W_E @ model.W_Q @ model.W_K.mT @ model.W_E.mT / model.d_head**0.5
head = next(
    address for address, label in practice.truth["heads"].items() if label == "skip_trigram"
)
pictures.matrices(
    {f"QK of head {head[0]}.{head[1]} (nats)": full_qk[head], "OV of the same head": full_ov[head]},
    axes={
        f"QK of head {head[0]}.{head[1]} (nats)": ("destination", "source"),
        "OV of the same head": ("source", "output"),
    },
    digits=0,
)

# %% [markdown]
# Read the left picture row by row: a destination with a dark cell looks for that source. Then go to the
# right picture, to the row of the *source*, and read off its outputs. A source with two dark cells in its
# column on the left and two in its row on the right makes four skip-trigrams. Two were meant. The head
# can't have only those.
#
# **Question.** Other heads have large entries in these tables as well. Which ones, and why are they not
# skip-trigrams by our rules?
#
# <details><summary>Answer</summary>
#
# A duplicate-token head has a large diagonal in its QK circuit, and a copying head one in its OV circuit. One could
# read such a head as $d_\text{vocab}$ skip-trigrams of the form (a, a, a). A rule in one sentence says
# more than such a list, so it gets the label of the rule. A scrambled head has entries of all sizes, but
# no pair of them is large in both tables.
#
# </details>

# %% [markdown]
# ## 7 · Who reads whom?
#
# Notebook 04 has the tool: composition scores. For an earlier head 1 and a later head 2,
#
# $$ \text{Q:}\ \frac{\lVert W_{OV}^1 W_{QK}^2 \rVert}{\lVert W_{OV}^1 \rVert \lVert W_{QK}^2 \rVert} \qquad
#    \text{K:}\ \frac{\lVert W_{OV}^1 (W_{QK}^2)^T \rVert}{\lVert W_{OV}^1 \rVert \lVert W_{QK}^2 \rVert} \qquad
#    \text{V:}\ \frac{\lVert W_{OV}^1 W_{OV}^2 \rVert}{\lVert W_{OV}^1 \rVert \lVert W_{OV}^2 \rVert} $$
#
# Two heads that have nothing to do with each other reach about $1/\sqrt{d_\text{model}}$.


# %%
def composition_scores(model, layer_1, layer_2):
    """→ {"Q", "K", "V"}: (head of layer_1, head of layer_2), minus 1/sqrt(d_model)."""
    qk, ov = model.W_Q @ model.W_K.mT, model.W_V @ model.W_O  # (layer, head, d_model, d_model)
    written = ov[layer_1][:, None]
    read = {"Q": qk[layer_2], "K": qk[layer_2].mT, "V": ov[layer_2]}
    norm = torch.linalg.matrix_norm
    return {
        kind: norm(written @ W) / (norm(written) * norm(W)) - model.d_model**-0.5
        for kind, W in read.items()
    }


# %% demo
scores = composition_scores(model, 0, 1)
pictures.matrix(
    torch.cat(list(scores.values())),
    rows=[f"{kind} from 0.{head}" for kind in scores for head in range(model.n_heads)],
    columns=[f"1.{head}" for head in range(model.n_heads)],
    axes=("kind, head read from", "head that reads"),
    title="Composition scores above chance",
)

# %% [markdown]
# Most scores are *below* zero, so below chance: these heads were written onto separate directions of the
# stream, and two random heads would overlap more. A dead head is nothing but noise, and scores about
# zero. The pairs that compose stand far above both. Put your threshold into the gap. How wide is it in other practice models, above all in those of three layers?
# Trained models have no such gap, and there the argument about what a composition score means begins.
#
# Now open the envelope. Does the truth agree with what the pictures told you?

# %%
for name, part in practice.truth.items():
    print(name, part, sep="\n  ")

# %% [markdown]
# ## 8 · Your turn
#
# ### Exercise: Name the circuits of a mystery model
#
# *180 minutes · difficulty 3 of 3 · 5 points*
#
# Two ways to begin, and both can be mixed:
#
# - **By hand.** Do sections 4 to 7 with `mine[0]`, `mine[1]`, `mine[2]` and write your findings into the
#   notes below. `tag` gives each model a number by which your function can recognize it. If you hand in
#   nothing but notes, you can earn half of the points.
# - **By detector.** Turn each picture into a number and a threshold. Practice models tell you whether the
#   threshold is any good.
#
# Parts that are still missing may be left out of the dict: `check` grades the others. Take sizes
# (`d_vocab`, `n_ctx`, number of heads) from the model. They differ.


# %%
def tag(model):
    """A number that is different for every model."""
    return round(float(model.W_E.double().abs().sum()), 3)


notes = {
    # tag of your model: what you found in it, for instance
    # 1234.567: {"heads": {(0, 0): "previous"}, "skip_trigrams": [], "compositions": []},
}
for own in mine:
    print(own.n_layers, "layers: tag", tag(own))


# %% answer
def name_circuits(model):
    """What is in this model: the job of each head, its skip-trigrams, its compositions.

    model: a Transformer of one to three layers
    → {"heads": {(layer, head): label}, "skip_trigrams": [(source, destination, output), ...],
    "compositions": [("Q", "K" or "V", (layer, head) read from, (layer, head) reading), ...]}
    """
    ### BEGIN SOLUTION
    # Where does each head look? Fixed distances on random text, stripes on repeated text.
    # All thresholds lie far from both groups, in hundreds of practice models.
    anywhere = mean_pattern(model, random_text(model))
    distances = torch.stack(
        [anywhere.diagonal(-back, -2, -1).mean(dim=-1) for back in range(1, model.n_ctx // 2)]
    )
    period = 9
    position = torch.arange(model.n_ctx)
    back = position[:, None] - position
    repeating = mean_pattern(model, repeated_text(model, period))

    def attention(stripe):
        seen = repeating * (stripe & (back > 0))
        return seen[..., period:, :].sum(dim=-1).mean(dim=-1)

    on_copies = attention(back % period == 0)
    after_copies = attention(back % period == period - 1)

    # What does it do with what it sees?
    queries, keys = model.W_E @ model.W_Q, model.W_E @ model.W_K  # (layer, head, d_vocab, d_head)
    full_qk = queries @ keys.mT / model.d_head**0.5
    full_ov = (model.W_E @ model.W_V) @ (model.W_O @ model.W_U)
    own_token = full_ov.diagonal(0, -2, -1)
    rise = (own_token - full_ov.mean(dim=-1)).mean(dim=-1)

    def trigrams(head):
        pairs = (full_qk[head] > 8.0).nonzero().tolist()  # nats: e^8 times an ordinary token
        return [
            (source, destination, output)
            for destination, source in pairs
            for output in (full_ov[head][source] > 4.5).nonzero().flatten().tolist()
        ]

    def label(head):
        if distances[:, *head].max() > 0.7:
            return "previous" if distances[0, *head] > 0.7 else "positional"
        if on_copies[head] > 0.7:
            return "duplicate"
        if after_copies[head] > 0.7 and rise[head] > 3.0:
            return "induction"
        if rise[head] < -3.0:
            return "anti_copying"
        return "skip_trigram" if trigrams(head) else "none"

    layers, indices = range(model.n_layers), range(model.n_heads)
    heads = {(layer, index): label((layer, index)) for layer in layers for index in indices}

    # Who reads whom? What stands out from two heads that have nothing to do with each other.
    compositions = []
    for later in layers:
        for earlier in range(later):
            for kind, score in composition_scores(model, earlier, later).items():
                for writer, reader in (score > 0.06).nonzero().tolist():
                    compositions.append((kind, (earlier, writer), (later, reader)))

    answering = [head for head, name in heads.items() if name == "skip_trigram"]
    return {
        "heads": heads,
        "skip_trigrams": [triple for head in answering for triple in trigrams(head)],
        "compositions": compositions,
    }
    ### END SOLUTION


# %% check
check(name_circuits)

# %% [markdown]
# **What you showed.** Weights that nobody explained to you can be read. Not by staring at them: by asking,
# for each head, a few sharp questions, in an order in which the earlier answers protect the later ones.
#
# **Try this.** One check asks about six models. Practice models are free, so measure your detector on
# many of them before you trust it. Take the `#` away once your function answers something. Which label
# is wrong most often, and for which heads?

# %%
for level in (1, 2, 3):
    for number in range(5):
        known = mystery.practice(100 + number, level)
        # heads = name_circuits(known.model)["heads"]
        # wrong = {a: (heads.get(a), t) for a, t in known.truth["heads"].items() if heads.get(a) != t}
        # print(level, number, wrong or "all heads right")

# %% [markdown]
# ### Question: When to trust a detector
#
# *15 minutes · 3 points, marked by a person*
#
# Your detector is right on hundreds of practice models. What would you have to show before you ran it on a trained model and
# believed what it says? Write down three different things, and for each why practice models don't show it.
#
# Write your answer into the next cell: double-click it, replace the words that stand there, press Shift+Enter.
# No program judges it. In a class a person does. Alone, mark it yourself by `solution("when_to_trust_a_detector")`.

# %% question [markdown] name="when_to_trust_a_detector" points=3
# ### BEGIN SOLUTION
# **A good answer** has three of these.
#
# - **The thresholds come from the test.** They sit in gaps between planted circuits and nothing. Trained heads fill the gaps:
#   half previous-token head, half something else. One label for each head may be the wrong question.
# - **The list of labels is closed.** A trained head can do something that is not on it, and the detector will answer `"none"`
#   or, worse, the nearest label.
# - **The probes are narrow.** Random tokens are far from the text that the model knows. A head can act one way on random tokens and
#   another way on English.
# - **Naming is not explaining.** A score says that a head *looks like* an induction head. That it *is* one, and that the loss
#   depends on it, takes an intervention: take it out or replace it by the story, and measure (notebooks 05 and 06).
# - **Planted circuits work alone.** In trained models several heads share one job, and one head has several. Taking out one head then
#   shows less than the job is worth.
#
# **Marking guide**
#
# - **1 point**: a first thing to show, with the reason why practice models don't show it.
# - **1 point**: a second one, different in kind.
# - **1 point**: a third one. At least one of the three must be an intervention, or a test on the text that the model was trained on.
# ### END SOLUTION

# %% [markdown]
# ## The end: what you have shown
#
# This is the map from notebook 00 once more, now with numbers. For each result of the paper it says where you showed it, what
# the paper measured, what our models give, and whether the two agree. Our numbers come from the shipped models as they are.

# %% demo
results.table()

# %% [markdown]
# Where the two differ, don't blame either. Ours are small models with four or eight heads a layer, a vocabulary of 2,048 tokens,
# and minutes of training. What should carry over is the *method*, and the direction of most results. A number of one model on one kind
# of text is a number of that model on that text.
#
# ## The dictionary, last page
#
# These are the words that you now own, and that later work takes for granted. Each leads to the notebook in which you built what it means.
#
# | word | in one line | notebook |
# |---|---|---|
# | **residual stream** | the vector at each position that all layers read from and add to | [00](../00-residual-stream/00-residual-stream.ipynb) |
# | **virtual weights** | the product that connects two layers directly, through the stream | [00](../00-residual-stream/00-residual-stream.ipynb) |
# | **privileged basis** | coordinates that mean something; the stream has none by its equations | [00](../00-residual-stream/00-residual-stream.ipynb) |
# | **memory management** | erasing from the stream what an earlier part wrote | [00](../00-residual-stream/00-residual-stream.ipynb) |
# | **bigram** | a pair of neighboring tokens; all that a model without layers can know | [01](../01-zero-layer/01-zero-layer.ipynb) |
# | **direct path** | embedding times unembedding: what is said past all heads | [01](../01-zero-layer/01-zero-layer.ipynb) |
# | **QK circuit** | `W_Q @ W_K.T`: where a head looks | [02](../02-attention-heads/02-attention-heads.ipynb) |
# | **OV circuit** | `W_V @ W_O`: what a head makes of what it looks at | [02](../02-attention-heads/02-attention-heads.ipynb) |
# | **frozen pattern** | attention held fixed at that of a run; the rest is then linear | [02](../02-attention-heads/02-attention-heads.ipynb) |
# | **skip-trigram** | source … destination → output: what one head of one layer can say | [03](../03-one-layer/03-one-layer.ipynb) |
# | **skip-trigram bug** | a pair that is forced because OV doesn't know the destination | [03](../03-one-layer/03-one-layer.ipynb) |
# | **copying head** | raises the token that it looks at; shows in the eigenvalues of OV, which prove nothing | [03](../03-one-layer/03-one-layer.ipynb) |
# | **positional head** | looks a fixed distance back, whatever stands there | [03](../03-one-layer/03-one-layer.ipynb) |
# | **composition** | a head reading what an earlier head wrote, by its queries, keys or values | [04](../04-composition/04-composition.ipynb) |
# | **composition score** | how much of what one head writes another could read; compared with chance | [04](../04-composition/04-composition.ipynb) |
# | **virtual head** | two heads in a row, which act as one | [04](../04-composition/04-composition.ipynb) |
# | **previous-token head** | looks at the position just before | [05](../05-induction-heads/05-induction-heads.ipynb) |
# | **prefix matching** | looking at what came after an earlier copy of the present token | [05](../05-induction-heads/05-induction-heads.ipynb) |
# | **induction head** | prefix matching and copying: [a][b] … [a] → [b] | [05](../05-induction-heads/05-induction-heads.ipynb) |
# | **duplicate-token head** | looks at earlier copies of the present token | [05](../05-induction-heads/05-induction-heads.ipynb) |
# | **ablation** | taking a part out, to see what it was good for; zero, mean or frozen | [05](../05-induction-heads/05-induction-heads.ipynb) |
# | **phase change** | the short stretch of training in which induction heads form | [05](../05-induction-heads/05-induction-heads.ipynb) |
# | **in-context learning score** | late loss minus early loss; negative is good | [05](../05-induction-heads/05-induction-heads.ipynb) |
# | **term importance** | what paths of each length are worth, in nats | [06](../06-path-importance/06-path-importance.ipynb) |
# | **direct logit attribution** | what each part of the stream says about the next token by itself | [06](../06-path-importance/06-path-importance.ipynb) |
# | **value-weighted pattern** | attention times the length of what it moves | [06](../06-path-importance/06-path-importance.ipynb) |
# | **folding** | moving a scale, shift or bias into the weights beside it | [07](../07-beyond/07-beyond.ipynb) |
# | **smeared keys** | keys mixed with the key before: induction in one layer | [07](../07-beyond/07-beyond.ipynb) |
# | **copy suppression** | a head that lowers what it finds; anti-copying | [07](../07-beyond/07-beyond.ipynb) |
#
# ## Where to go on, and what later work changed
#
# **The paper's own corrections.** One composition figure was wrong: a norm is not cyclic. The
# [erratum](https://transformer-circuits.pub/2021/framework/index.html#comment-errata) stands among the comments; corrected, there is
# more composition. The [exercises](https://transformer-circuits.pub/2021/exercises/index.html) published beside the paper ask you to
# write circuits by hand, as the maker of your mystery models did.
#
# **Induction heads in large models.** [In-context Learning and Induction
# Heads](https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html) (2022) follows them up to billions of
# parameters. How much of their work the simple story explains was
# [tested by resampling](https://www.lesswrong.com/posts/j6s9H9SHrEhEfuJnq/causal-scrubbing-results-on-induction-heads): about a third,
# and nearly nine tenths once the story is refined. That one layer can't do induction well, however trained, was
# [proved](https://arxiv.org/abs/2408.14332) as a bound on its size. Whether induction heads are what learning from examples rests on is
# disputed: in larger models [function-vector heads](https://arxiv.org/abs/2502.14010) matter more for it, and models
# [trained not to copy](https://arxiv.org/abs/2511.05743) learn much of it all the same.
#
# **One layer.** A sum of skip-trigrams is
# [not all that one layer can do](https://www.lesswrong.com/posts/b5HNYh9ne5vEkX5ag/one-layer-transformers-aren-t-equivalent-to-a-set-of-skip):
# sources compete for attention.
#
# **Measuring composition.** What a score should mean is discussed by
# [Lieberum](https://www.lesswrong.com/posts/vaHxk9jSfmGbzvztT/thoughts-on-formalizing-composition) and
# [Snell](https://willsnell.com/posts/math_composition); the [projection kernel](https://arxiv.org/abs/2601.10266) compares subspaces instead.
#
# **The stream.** Trained models do have [special directions](https://www.anthropic.com/research/privileged-bases-in-the-transformer-residual-stream),
# by the optimizer's doing. And because later parts erase what earlier ones wrote, direct attribution
# [can mislead](https://arxiv.org/abs/2310.07325).
#
# **Heads that lower.** [Copy suppression](https://arxiv.org/abs/2310.04625) takes one head of GPT-2 apart: it lowers what it finds, and
# repairs part of what an ablation breaks.
#
# **Beyond attention.** [Toy Models of Superposition](https://transformer-circuits.pub/2022/toy_model/index.html) begins where notebook 07
# ends: why neurons are hard to read. For words that you meet on the way, there is [a glossary](https://neelnanda.io/glossary).
#
# This was the last notebook. Your map:

# %%
progress()
