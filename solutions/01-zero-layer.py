# %% [markdown]
# # 01 · Zero layers: a transformer that only knows pairs
#
# Take a transformer and remove all of its layers. What is left? A token comes in, is embedded, and
# is unembedded at once. Such a model never learns what stood two tokens ago. Even so it is worth
# two hours: it is the one transformer that we can understand *completely*, and it lives on inside
# every deeper one.
#
# **After this notebook you can**
#
# - say what the best possible model without layers is, and compute how good it is;
# - read a model's whole behavior off its weights, without running it on anything;
# - train such a model and prove that no training could do better;
# - measure what a narrow residual stream costs;
# - point at the same bigram table inside a deeper model.
#
# **Time:** about two and a half hours, in pieces if you like. **It builds on** [00 · the residual
# stream](../00-residual-stream/00-residual-stream.ipynb). In the
# [paper](https://transformer-circuits.pub/2021/framework/index.html) you are in the section
# "Zero-Layer Transformers".
#
# As before: `check(name)` judges your function, `hint(name)` gives one hint at a time, and
# `solution(name)` shows our way once you have passed.

# %%
import torch

from grader import check, hint, models, progress, solution
from grader.lab import bigrams, live, pictures

# %% [markdown]
# ## 1 · Nothing in between
#
# In notebook 00 the logits were the sum of what the embedding and all layers wrote, sent through
# the unembedding. Without layers the sum has a single term:
#
# $$\text{logits at position } i \;=\; W_E[\text{token}_i]\; W_U.$$

# %% demo
pictures.stream_diagram([], path=[], title="Zero layers: only the direct path")

# %% [markdown]
# There is no attention, so nothing moves between positions. At position $i$ the model knows the
# token that stands there, and nothing else. What could it possibly learn? One thing only: *after
# this token, that one is likely*. A pair of neighboring tokens is called a **bigram**. So the
# paper's first claim is:
#
# > A zero-layer transformer models bigrams, and its table of bigrams can be read off its weights.
#
# We go at it from two sides. First you count bigrams in a text and make the best table there is.
# Then you build the model and ask whether training finds that table.
#
# ### The text
#
# We read real text. For a start the tokens are single characters, 96 of them, so that the table is
# small enough to look at. The English text that comes with the course is the *Jargon File* (version
# 4.4.7), a dictionary of hacker slang, and chapters of a Bible in modern English. Both are in the
# public domain. The other samples are Python's own library and its documentation, © Python Software
# Foundation, used under the PSF License, version 2. All of them are lightly cleaned up.

# %%
tokenizer = models.tokenizer("small")  # 512 tokens; the first 96 are single characters
alphabet = [tokenizer.decode([i]) for i in range(96)]
code_of = {character: i for i, character in enumerate(alphabet)}
text = models.sample_text("english")
letters = torch.tensor([code_of[character] for character in text])
print(f"{len(letters):,} characters. From the Jargon File, and from the Bible:\n")
for beginning in ("The file was quickly renamed", "Moses cried to Yahweh"):
    start = text.index(beginning)
    print(text[start : start + 230], "…\n")

# %% [markdown]
# ## 2 · What follows what
#
# How would *you* guess the next letter if you saw only the current one? You would look at a lot of
# text and keep a record. After a `q` there was a `u`, again and again. After an `e` there was often
# a blank, sometimes an `r`.
#
# ### Exercise: Count bigrams
#
# *12 minutes · difficulty 1 of 3 · 2 points*
#
# Make that record. It's a table with a row for each current token and a column for each next one.
# Put into each cell how often this token was followed by that one.
#
# This table is all that a model without layers can ever learn from a text: two texts with equal
# counts are the same text to it. So it pays to get the table exactly right. Two things to watch. A
# batch holds separate texts, and the end of one has nothing to do with the beginning of the next.
# And the ids may come in another integer type, such as `int32`.


# %% answer
def bigram_counts(tokens, d_vocab):
    """How often each token follows each other one.

    tokens (pos,) or (batch, pos): ids below d_vocab; the rows of a batch are separate texts
    → (current, next), that is (d_vocab, d_vocab)
    """
    ### BEGIN SOLUTION
    current = tokens[..., :-1].long().flatten()
    following = tokens[..., 1:].long().flatten()
    counts = torch.zeros(d_vocab, d_vocab)
    # Plain `counts[current, following] += 1` would count a repeated pair once only.
    return counts.index_put_((current, following), torch.ones(len(current)), accumulate=True)
    ### END SOLUTION


# %% check
check(bigram_counts)

# %% [markdown]
# **What you showed.** A text of hundreds of thousands of characters fits into a table of 96 × 96
# numbers, as far as this kind of model is concerned. Later that will make training very fast.
#
# Counts depend on how long the text is. What a model has to give is a *probability* for each next
# token, given the current one. Given: the current token is known, so the cells of its row share all
# the probability. In the paper's column convention the table is turned, [next, current].
#
# ### Exercise: From counts to log-probabilities
#
# *8 minutes · difficulty 1 of 3 · 1 point*
#
# Turn counts into natural logarithms of probabilities. A pair that never occurred has probability 0
# in your record, and the logarithm of 0 is −∞. To be on the safe side, act as if every pair had
# been seen `smoothing` times already: add that to *every* cell first. Then make each row sum to 1.


# %% answer
def bigram_log_probs(counts, smoothing):
    """Log-probabilities of the next token given the current one, from smoothed counts.

    counts (current, next), none below 0; smoothing: a number above 0 that is added to every cell
    → (current, next); the exponentials of each row sum to 1
    """
    ### BEGIN SOLUTION
    seen = counts + smoothing
    given_current = seen / seen.sum(dim=1, keepdim=True)
    return given_current.log()
    ### END SOLUTION


# %% check
check(bigram_log_probs)

# %% [markdown]
# **What you showed.** Here is the table of our English text with smoothing 1, for the letters,
# blank, comma, period, and the end of a line. It shows log-probabilities: 0 is certain, −2.3 is one
# in ten, −6.9 is one in a thousand. `·` is a blank and `⏎` a new line.

# %% demo
english = bigrams.of(letters, d_vocab=96)  # the same counts as yours
common = [code_of[character] for character in "abcdefghijklmnopqrstuvwxyz ,.\n"]
names = [alphabet[i] for i in common]
pictures.matrix(
    english.log_probs(smoothing=1.0)[common][:, common],
    rows=names,
    columns=names,
    axes=("current character", "next character"),
    title="English by pairs of characters: ln p(next | current)",
    diverging=False,
)

# %% [markdown]
# Look at the row of `q`: one bright cell. Look at its column: not a single one. So the table is far
# from symmetric, and "what follows" is another question than "what came before". Look at the
# vowels, too: after a vowel there is usually a consonant, and the other way round. Nobody told the
# table what a vowel is. (The dark cells in the rows of rare characters, such as `j` and `q`, are
# paler than elsewhere. That is the smoothing: it counts for more where little was seen.)
#
# A table of bigrams can also *write*: take a character, draw the next one from its row, go on from
# there. Below, the first text is drawn without any knowledge and the second knows how frequent each
# character is. The third uses the table of pairs. The last does the same with 512 tokens, most of
# them pieces of words.

# %% demo
chance = torch.Generator().manual_seed(1)
no_idea = torch.randint(96, (160,), generator=chance)
frequent = torch.multinomial(english.frequency, 160, replacement=True, generator=chance)
pieces = tokenizer.encode(text)
by_pieces = tokenizer.decode(bigrams.of(pieces, d_vocab=512).write(70, seed=3))
for what, ids in {
    "no idea": no_idea,
    "frequencies": frequent,
    "pairs of characters": english.write(160, seed=3),
}.items():
    print(f"— {what}\n{''.join(alphabet[i] for i in ids)!r}\n")
print(f"— pairs of word pieces\n{by_pieces!r}")

# %% [markdown]
# The third text nearly has words, of about the right length. The fourth has real words and now and
# then three in a row that make sense. Neither has any idea of what it is talking about. That is how
# much, and how little, pairs can do.
#
# **Question.** *Why smooth at all? In the text at hand, the unsmoothed table is the best one.*
#
# <details><summary>Answer</summary>
#
# On this text, yes. But a new text may hold a pair that never occurred in this one. The unsmoothed
# table says that this can't happen, and then it is *infinitely* surprised: its loss is −ln 0 = ∞.
# One such pair is enough. A model with finite weights can't make this mistake, because a softmax
# never gives exactly 0.
#
# </details>

# %% [markdown]
# ## 3 · The model, and the table inside it
#
# Now the other side. The model has two matrices. $W_E$ has a row for each token, and $W_U$ a column
# for each token. Between them are `d_model` numbers. That is all.
#
# ### Exercise: Run a model without layers
#
# *6 minutes · difficulty 1 of 3 · 1 point*
#
# Give the logits at every position. Embedding a token means to pick its row of `W_E`. The tokens
# may have any number of axes in front (no batch, a batch, a batch of batches), and the logits keep
# them.


# %% answer
def zero_layer_logits(tokens, W_E, W_U):
    """Run a model without layers.

    tokens (..., pos); W_E (d_vocab, d_model); W_U (d_model, d_vocab)
    → raw logits (..., pos, d_vocab)
    """
    ### BEGIN SOLUTION
    stream = W_E[tokens]  # (..., pos, d_model), and nobody adds to it
    return torch.einsum("...d,dv->...v", stream, W_U)
    ### END SOLUTION


# %% check
check(zero_layer_logits)

# %% [markdown]
# **What you showed.** The same token gives the same logits wherever it stands. There are only
# `d_vocab` different answers that this model can ever give. So let us write down all of them.
#
# ### Exercise: Read the table off the weights
#
# *6 minutes · difficulty 1 of 3 · 1 point*
#
# Give the model's complete table of log-probabilities: row = current token, column = next token. No
# text is needed and nothing is run. In the paper's convention this is $W_U W_E$, here it is $W_E
# W_U$, followed by what turns logits into log-probabilities. Mind that trained weights can be
# large.


# %% answer
def bigram_table(W_E, W_U):
    """The bigram table that the weights are; nothing is run.

    W_E (d_vocab, d_model); W_U (d_model, d_vocab)
    → log-probabilities (current, next), that is (d_vocab, d_vocab)
    """
    ### BEGIN SOLUTION
    logits = torch.einsum("cd,dn->cn", W_E, W_U)
    # A softmax in logarithms: subtract from each row the logarithm of the sum of its exponentials.
    return logits - torch.logsumexp(logits, dim=1, keepdim=True)
    ### END SOLUTION


# %% check
check(bigram_table)

# %% [markdown]
# **What you showed.** You can know *everything* that this model will ever say, from its weights
# alone. There is no other transformer for which that is so easy. The rest of the course is about
# keeping as much of it as possible when layers come in.
#
# Note what the last step did. A log-softmax subtracts one number from each row. So logits are only
# defined up to a constant in each row: add 5 to a whole row of $W_E W_U$ and the model stays the
# same. Compare single logits within a row, never across rows.
#
# **Question.** *To save weights, many models use one matrix for both ends: $W_U = W_E^{\mathsf T}$.
# What would that do to a model without layers?*
#
# <details><summary>Answer</summary>
#
# Then the logits are $W_E W_E^{\mathsf T}$, which is symmetric: the logit of `u` after `q` equals
# that of `q` after `u`. Go back to the picture and compare the row of `q` with its column. English
# isn't like that. Besides, the diagonal of $W_E W_E^{\mathsf T}$ is a sum of squares, so each token
# would tend to predict itself. A deeper model can repair this in its layers. A model without layers
# can't, and in this course the two ends are separate.
#
# </details>

# %% [markdown]
# ## 4 · How wrong is it? The loss
#
# A model is judged by how *surprised* it is. If it gave the true next token the probability $p$,
# its loss is $-\ln p$, in nats. A sure and right prediction costs 0. A guess among 96 equally
# likely characters costs $\ln 96 \approx 4.56$.
#
# The one difficulty is an index. The logits at a position speak about the *next* one:
#
# | position | 0 | 1 | 2 | 3 | 4 |
# |---|---|---|---|---|---|
# | the model sees | `t` | `h` | `e` | `·` | `c` |
# | its logits try to guess | `h` | `e` | `·` | `c` | ? |
#
# At the last position there is nothing to hold the guess against. So a text of 5 tokens has 4
# losses.
#
# ### Exercise: The loss on the next token
#
# *12 minutes · difficulty 1 of 3 · 2 points*
#
# Give the mean loss over all predictions of all texts in the batch, as one number. Everything that
# will ever be called "loss" in this course is this function. If its shift is wrong, all that
# follows is wrong, and it often *looks* good: a model that is held against the token it has already
# seen can reach a loss of almost 0 by repeating it.


# %% answer
def next_token_loss(logits, tokens):
    """Mean cross-entropy in nats; the logits at position i predict token i + 1.

    logits (..., pos, d_vocab); tokens (..., pos) with pos at least 2
    → one number, the mean over all pos − 1 predictions of all texts
    """
    ### BEGIN SOLUTION
    predictions = logits[..., :-1, :].log_softmax(dim=-1)
    truth = tokens[..., 1:]
    surprise = -torch.take_along_dim(predictions, truth[..., None], dim=-1)
    return surprise.mean()
    ### END SOLUTION


# %% check
check(next_token_loss)

# %% [markdown]
# **Try this.** A model made to *repeat* its token: $W_E$ is the identity, $W_U$ is 5 times the
# identity. Remove the `#` when your answers have passed. Its loss is worse than guessing (4.56).
# Then hold it against the token it sees: give the function texts in which each character is
# doubled.

# %%
W_E_repeat, W_U_repeat = torch.eye(96), 5 * torch.eye(96)
doubled = letters[:1000].repeat_interleave(2)
# print(next_token_loss(zero_layer_logits(letters[:1000], W_E_repeat, W_U_repeat), letters[:1000]))
# print(next_token_loss(zero_layer_logits(doubled, W_E_repeat, W_U_repeat), doubled))

# %% [markdown]
# ## 5 · The floor
#
# How good can such a model get? Not by this or that training, but at all? Usually nobody knows such
# a thing. Here we can compute it.
#
# Let $c_{ab}$ be the count of the pair $(a, b)$, $c_a$ the sum of row $a$, and $N$ the number of
# all pairs. Write $p(b|a) = c_{ab} / c_a$ for the shares in the text, and $q(b|a)$ for what a model
# says. The pair $(a, b)$ makes up $c_{ab}/N$ of the text and costs $-\ln q(b|a)$ each time, so the
# mean loss is
#
# $$\text{loss}(q) = \sum_{a,b} \frac{c_{ab}}{N} \, \bigl(-\ln q(b|a)\bigr).$$
#
# What if the model is exactly the text's own table, $q = p$? Then the loss is the **bigram
# entropy** of the text. It says how uncertain the next token really is, once the current one is
# known.
#
# ### Exercise: The floor: bigram entropy
#
# *12 minutes · difficulty 2 of 3 · 2 points*
#
# Compute it from the counts, in nats, without smoothing. A pair that never occurs weighs nothing:
# here $0 \ln 0$ counts as 0, whatever your computer thinks of it. A token that never occurs has an
# empty row; it weighs nothing either.


# %% answer
def bigram_entropy(counts):
    """The least mean loss that a table of bigrams can reach on a text with these counts, in nats.

    counts (current, next), none below 0, not all 0
    → one number
    """
    ### BEGIN SOLUTION
    counts = counts.double()
    c_current = counts.sum(dim=1, keepdim=True)
    p = counts / c_current.clamp(min=1e-300)  # an empty row stays empty
    of_each_row = torch.special.entr(p).sum(dim=1)  # entr(p) is −p ln p, and 0 at p = 0
    return (of_each_row * c_current[:, 0]).sum() / counts.sum()
    ### END SOLUTION


# %% check
check(bigram_entropy)

# %% [markdown]
# **What you showed.** You have a number that no model without layers can beat. Why is it a floor?
# Split the loss of any $q$ in two, by $-\ln q = -\ln p + \ln \frac{p}{q}$:
#
# $$\text{loss}(q) \;=\; \underbrace{\sum_{a,b} \frac{c_{ab}}{N}\bigl(-\ln p(b|a)\bigr)}_{\text{bigram entropy: only the text}}
# \;+\; \underbrace{\sum_a \frac{c_a}{N} \sum_b p(b|a) \ln\frac{p(b|a)}{q(b|a)}}_{\text{what this model pays on top}}$$
#
# The second part is a mean of Kullback–Leibler divergences, one for each row. None of them can be
# negative. To see it, use $\ln x \le x - 1$:
#
# $$-\sum_b p \ln\frac{p}{q} = \sum_b p \ln\frac{q}{p} \;\le\; \sum_b p \left(\frac{q}{p} - 1\right) = \sum_b q - \sum_b p \;\le\; 0.$$
#
# Equality needs $q = p$ wherever $p > 0$. So the best model *is* the table of the text, and all
# that can be improved about another one is the second part. We will call it the **gap**.
#
# How uncertain the next character is depends on the current one. The picture shows the entropy of
# each row. The floor is their mean, each row weighed by how often its character occurs.

# %% demo
by_entropy = sorted(common, key=lambda i: float(english.row_entropy[i]))
pictures.bars(
    english.row_entropy[by_entropy],
    [alphabet[i] for i in by_entropy],
    x_label="current character",
    y_label="entropy of the next (nats)",
    title="After which character is the next one hard to guess?",
    levels={f"floor {english.entropy:.3f}": english.entropy},
)

# %% [markdown]
# After `q` hardly anything is open. After a blank nearly everything is: a new word begins.
#
# ## 6 · Train it
#
# We know the best table. The model has to *store* it, in two matrices with `d_model` numbers for
# each token. Will training find it?
#
# ### Exercise: Train a model without layers
#
# *30 minutes · difficulty 3 of 3 · 4 points*
#
# Write the training. You get a text, and return weights whose loss on *that text* is close to the
# least that this width allows: within 0.05 nats of a floor that we computed with long runs. Where
# `d_model` is at least `d_vocab`, that is the bigram entropy. Any method is fine. You have two
# minutes for each text, and a good loop needs some seconds in all; the check trains four times.
#
# What you know by now helps a lot. The loss depends on the text through its counts alone (look at
# the formula of section 5 again). A step on the *whole* text then costs one small matrix product,
# however long the text is. Batches of random positions work, too, but rare tokens then need
# thousands of steps.
#
# Two rules. The same seed must give the same weights. And $W_E$ and $W_U$ must not both start at
# zero: then neither of them would ever get a gradient.


# %% answer
def train_zero_layer(tokens, d_vocab, d_model, seed):
    """Weights that predict this text nearly as well as their width allows.

    tokens (pos,): ids below d_vocab, at most 512 of them; seed: the same seed gives the same weights
    → tuple of W_E (d_vocab, d_model) and W_U (d_model, d_vocab)
    """
    ### BEGIN SOLUTION
    pairs = torch.stack([tokens[:-1], tokens[1:]], dim=1)
    seen, times = pairs.unique(dim=0, return_counts=True)  # each pair once, and how often it occurs
    share = torch.zeros(d_vocab, d_vocab)
    share[seen[:, 0], seen[:, 1]] = times / times.sum()

    generator = torch.Generator().manual_seed(seed)
    W_E = (0.3 * torch.randn(d_vocab, d_model, generator=generator)).requires_grad_()
    W_U = (0.3 * torch.randn(d_model, d_vocab, generator=generator)).requires_grad_()
    optimizer = torch.optim.Adam([W_E, W_U], lr=0.1)
    steps = 400
    # Large steps at first, then smaller and smaller ones, so that the weights come to rest.
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    for _ in range(steps):
        loss = -(share * (W_E @ W_U).log_softmax(dim=1)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        slower.step()
    return W_E.detach(), W_U.detach()
    ### END SOLUTION


# %% check
check(train_zero_layer)

# %% [markdown]
# **What you showed.** Nobody told the weights to become a table of bigrams. They were only asked to
# predict, and the table is what they became, because there is nothing better to become.
#
# Watch it happen. This is our loop at work on Python code, cut into 512 tokens, with 32 dimensions.
# The dashed line is the floor. The curve redraws itself while the model trains.

# %% demo
python = bigrams.of(tokenizer.encode(models.sample_text("code")), d_vocab=512)
W_E, W_U = python.train(32, steps=500, watch=True, title="512 tokens of Python code, d_model 32")

# %% [markdown]
# **Try this.** Draw the same curve from your own loop. Put `watch = live.curve()` in front of it,
# and in each step `watch(step + 1, steps, loss)`. The picture redraws a few times a second; during
# a check nothing is drawn. What happens to the curve if the learning rate stays large to the end?
# If it is 100 times smaller?

# %%
watch = live.curve(title="My own loop")
# W_E, W_U = train_zero_layer(letters, 96, 8, seed=0)

# %% [markdown]
# Back to characters. Here is the table of the text beside those of two trained models, with 16
# dimensions and with 2. Red means likely.

# %% demo
trained = {d: english.train(d) for d in (1, 2, 4, 8, 16, 32, 64)}
tables = {d: (W_E @ W_U).softmax(dim=1) for d, (W_E, W_U) in trained.items()}
shown = [code_of[character] for character in "aehilnoqrstuvwy .\n"]
pictures.matrices(
    {
        "counted in the text": english.probs[shown][:, shown],
        "trained, d_model 16": tables[16][shown][:, shown],
        "trained, d_model 2": tables[2][shown][:, shown],
    },
    axes=("current", "next"),
    labels=[alphabet[i] for i in shown],
)

# %% [markdown]
# With 16 dimensions you have to look hard to find a difference. With 2 the model has kept the
# coarse structure and lost the special cases.

# %% [markdown]
# ## 7 · The price of being narrow
#
# The table has 96 × 96 cells. A model with 8 dimensions has 2 × 96 × 8 numbers, about a sixth of
# that. Something has to give. In the language of matrices: $W_E W_U$ is a product through `d_model`
# dimensions, so its **rank** is at most `d_model`. Only a few independent rows; all others are
# mixtures of them. And $p$ will rarely have a logarithm of such a low rank. So the gap can't
# vanish, however long we train.
#
# How large is it? Measure.

# %% demo
widths = list(trained)
gap = {d: english.loss(table.log()) - english.entropy for d, table in tables.items()}
pictures.lines(
    {"trained": [english.entropy + gap[d] for d in widths]},
    widths,
    x_label="d_model",
    y_label="loss (nats per character)",
    title="What a wider stream buys",
    levels={"bigram entropy": english.entropy},
    log_x=True,
)

# %% demo
for d in widths:
    print(f"d_model {d:3}: loss {english.entropy + gap[d]:.3f}, of which gap {gap[d]:.4f}")

# %% [markdown]
# The first few dimensions buy a lot, and soon there is almost nothing left to buy. Characters are
# an easy case, with only 96 of them. In section 9 you will see the same curve for 2,048 tokens,
# where each doubling of the width about halves the gap, and it takes many more dimensions until it
# is gone.
#
# Which characters pay? The gap is a sum over rows, so each row's share can be looked at.

# %% demo
# entr(p) is −p ln p, so p ln p − p ln q is one term of the divergence of a row.
per_row = (-torch.special.entr(english.probs) - english.probs * tables[4].log()).sum(dim=1)
pays = per_row * english.frequency
most = pays.argsort(descending=True)[:24].tolist()
pictures.bars(
    pays[most],
    [alphabet[i] for i in most],
    x_label="current character",
    y_label="share of the gap (nats)",
    title="Who pays for having only 4 dimensions",
)

# %% [markdown]
# ### Exercise: Cut the table to rank d_model
#
# *12 minutes · difficulty 2 of 3 · 2 points*
#
# Is there a shortcut? Linear algebra knows the best approximation of a matrix by one of low rank:
# take the singular value decomposition (SVD) and keep only the largest `d_model` singular values.
# No training, no seed, one line of theory. Try it on the table of log-probabilities.
#
# Take the table exactly as it comes; don't center it. After the cut the rows are no longer
# distributions, so treat them as logits and make them distributions again. If `d_model` is larger
# than the number of singular values, there is nothing to cut.


# %% answer
def svd_bigram_table(log_probs, d_model):
    """The table cut to rank d_model by its SVD, rows made distributions again.

    log_probs (current, next), all finite, used as given; d_model: how many singular values stay
    → log-probabilities (current, next)
    """
    ### BEGIN SOLUTION
    U, S, Vh = torch.linalg.svd(log_probs)
    d = min(d_model, len(S))
    nearest = sum(S[i] * torch.outer(U[:, i], Vh[i]) for i in range(d))  # one rank at a time
    return nearest.log_softmax(dim=1)
    ### END SOLUTION


# %% check
check(svd_bigram_table)

# %% [markdown]
# **What you showed.** You have a model of the same rank without any training. Is it as good as the
# trained one? The picture compares their losses on the text. The SVD needs finite logarithms, so
# some smoothing is necessary; it is drawn for two amounts.

# %% demo
pictures.lines(
    {
        "trained": [english.loss(tables[d].log()) for d in widths],
        "SVD, smoothing 1": [english.loss(english.cut(d, smoothing=1.0)) for d in widths],
        "SVD, smoothing 0.1": [english.loss(english.cut(d, smoothing=0.1)) for d in widths],
    },
    widths,
    x_label="d_model",
    y_label="loss (nats per character)",
    title="The same rank, two aims",
    levels={"bigram entropy": english.entropy},
    log_x=True,
)

# %% [markdown]
# Not by far. The theorem about the SVD is true, and it answers another question. The SVD minimizes
# the *squared error of the logarithms*, and there every cell counts the same. Most cells belong to
# pairs that never occur, such as `Q` before `%`. Their logarithms are far below all others, and the
# SVD spends its few dimensions on getting those right. The loss weighs a cell by how often it
# occurs, and it doesn't care whether an impossible pair gets one in a million or one in a billion.
# With less smoothing the impossible logarithms lie even lower, and the narrow cuts get worse.
#
# The lesson will come back. *Nearest* is always nearest in some measure. When a circuit is
# approximated, or two of them compared, ask what is being weighed, and whether the data agrees.
#
# **Question.** *Our 96 characters need 96 rows. Is there a width below 96 at which every table
# without zeros can be stored exactly?*
#
# <details><summary>Answer</summary>
#
# Yes, 95. Log-probabilities may be shifted by a constant in each row, the softmax takes it out
# again. So subtract from each row its last entry. The table then has a last column of zeros, hence
# a rank of at most 95, and a product through 95 dimensions can reach it. In general d_vocab − 1 is
# enough. (A pair with probability exactly 0 can only be approached.) In real models d_vocab is
# 50,000 or more and d_model some thousands, so this never helps.
#
# </details>

# %% [markdown]
# ## 8 · The unembedding is not the inverse of the embedding
#
# The names suggest it: first *embed*, then *unembed*. But if $W_E W_U$ were the identity, or close
# to it, each token would predict *itself*. The model's job is another one, and the two matrices
# know different things. Look at the model with two dimensions, where each character is a point in
# the plane. First its row of $W_E$: where it goes when it is the *current* character.

# %% demo
W_E, W_U = trained[2]
drawn = [code_of[character] for character in "abcdefghijklmnopqrstuvwxyz "]
pictures.points(
    W_E[drawn, 0], W_E[drawn, 1], labels=[alphabet[i] for i in drawn],
    x_label="dimension 0", y_label="dimension 1",
    title="Rows of W_E: characters as they are read",
)  # fmt: skip

# %% [markdown]
# And this is its column of $W_U$: the direction in which it is predicted as the *next* one.

# %% demo
pictures.points(
    W_U[0, drawn], W_U[1, drawn], labels=[alphabet[i] for i in drawn],
    x_label="dimension 0", y_label="dimension 1",
    title="Columns of W_U: characters as they are predicted",
)  # fmt: skip

# %% [markdown]
# In both pictures the vowels `a`, `i`, `o`, and `e` have found each other. In the first one,
# because similar things come *after* them. In the second, because similar things come *before*
# them. Two different reasons, and so two different pictures. Look for `h`. When it is read it
# stands among consonants. When it is predicted it stands with the vowels, because `t`, `w`, `s`,
# and `c` call for an `h` just as they call for a vowel. One matrix cannot be the other one undone.
#
# Don't read anything into the axes themselves. For any invertible matrix $M$ the weights $W_E M$
# and $M^{-1} W_U$ are the same model, in other coordinates. Notebook 00 turned the stream; without
# layers you may even stretch it. What is real is the product.

# %% demo
W_E, W_U = trained[64]
undone = torch.linalg.pinv(W_E)
alone = [code_of[character] for character in "aehnoqtuwz ."]
pictures.matrices(
    {
        "the model: W_E times W_U": tables[64][alone][:, alone],
        "W_E times its own inverse": (W_E @ undone)[alone][:, alone],
    },
    axes={
        "the model: W_E times W_U": ("current", "next"),
        "W_E times its own inverse": ("current", "next"),
    },
    labels=[alphabet[i] for i in alone],
)

# %% [markdown]
# On the left the probabilities of the trained model with 64 dimensions. On the right the product of
# its embedding with its (pseudo-)inverse, as if unembedding were undoing. There the diagonal stands
# out: each character proposes itself.

# %% [markdown]
# ## 9 · Read it in a trained model
#
# The course ships a model without layers, trained on all of the course's text: 2,048 tokens, most
# of them words or pieces of words, and 128 dimensions. First its loss on the text that it was
# trained on, beside the floor. We don't run it: its table and the counts of the text are enough.

# %% demo
model = models.load("zero-layer")
corpus = bigrams.Bigrams(models.bigram_counts())
table = (model.W_E @ model.W_U).log_softmax(dim=-1)
print(f"{int(corpus.counts.sum()):,} pairs of {model.d_vocab:,} tokens")
print(f"guessing: {torch.tensor(model.d_vocab).log():.3f} nats per token")
print(f"the model: {corpus.loss(table):.3f}")
print(f"bigram entropy: {corpus.entropy:.3f}")

# %% [markdown]
# It stands close above the floor. The rest is the price of 128 dimensions for 2,048 tokens. The
# model's card holds the gaps of models of other widths, trained on the same text.

# %% demo
by_width = models.card("zero-layer")["gap_by_d_model"]
pictures.lines(
    {"gap": list(by_width.values())},
    [int(d) for d in by_width],
    x_label="d_model",
    y_label="loss above the floor (nats)",
    title="2,048 tokens: what each doubling of the width is worth",
    log_x=True,
)

# %% [markdown]
# Now what it says. For some tokens, the most likely next ones by the model's weights, and beside
# them the shares counted in the text.

# %% demo
strings = model.tokenizer.token_strings()
for word in [" don", "self", " of", "else", " every", " will", "Type", " range"]:
    row = model.tokenizer.token_id(word)
    best = table[row].exp().topk(4)
    said = [
        f"{strings[i]} {p:.2f} ({corpus.probs[row, i]:.2f})"
        for p, i in zip(best.values, best.indices, strict=True)
    ]
    print(f"{strings[row]:>8} → {',   '.join(said)}")

# %% [markdown]
# Left of the bracket the model, in it the text. `·don` is followed by `'t`, and sometimes by `key`.
# Half of this is grammar, half is Python, and some is neither: the two halves of a word that the
# tokenizer cut.
#
# Does any token predict itself? Take the share of tokens whose own logit is the largest of their
# row.

# %% demo
logits = model.W_E @ model.W_U
own = (logits.argmax(dim=1) == torch.arange(model.d_vocab)).double().mean()
print(f"tokens that propose themselves first: {own:.1%}")

# %% [markdown]
# **A text it has not seen.** On its own text no table beats the counted one. On a new text that
# changes. Here are the losses on held-out English for the model and for the counted table with
# several amounts of smoothing. (Without smoothing it is infinite, because some pairs are new.)

# %% demo
fresh = bigrams.of(models.sample_tokens("english"), model.d_vocab)
print(f"the model with 128 dimensions:  {fresh.loss(table):.3f}")
for amount in (1.0, 0.1, 0.01, 0.001):
    print(f"counted, smoothing {amount:<5g}:       {fresh.loss(corpus.log_probs(amount)):.3f}")

# %% [markdown]
# Nobody smoothed the model. Still it does about as well as the counted table with the best
# smoothing, and better than with a bad one. A narrow stream can't store the accidents of one text,
# so it keeps what many rows have in common. The price of section 7 buys something after all.

# %% [markdown]
# ### The same table inside a deeper model
#
# Put layers back in. The product $W_E W_U$ doesn't disappear. It's the **direct path**: what the
# embedding writes, read by the unembedding, past all heads. The paper notes that in larger models,
# too, it goes with bigrams of the kind "Barack" → "Obama". Here are the strongest cells of the
# direct path of the course's two-layer model, among tokens that occur at least 300 times. Each cell
# is compared with the mean of its row and of its column. The number is the share of that pair in
# the text.

# %% demo
deep = models.load("two-layer")
direct = deep.W_E @ deep.W_U
direct = direct - direct.mean(dim=1, keepdim=True) - direct.mean(dim=0)
direct[corpus.counts.sum(dim=1) < 300] = -torch.inf
for place in direct.flatten().topk(16).indices.tolist():
    a, b = divmod(place, deep.d_vocab)
    print(f"{strings[a]:>10} → {strings[b]:10} {corpus.probs[a, b]:.2f}")

# %% [markdown]
# Most of them are words that the tokenizer cut in two, and that can only go on in one way. But the
# direct path of a deeper model need not be the *whole* table of bigrams. Heads see the current
# token as well, and they can take over a part of the work. How good would it be alone?

# %% demo
direct_table = (deep.W_E @ deep.W_U).log_softmax(dim=-1)
frequencies = (corpus.counts.sum(dim=0) / corpus.counts.sum()).clamp(min=1e-12).log()
pictures.bars(
    [
        corpus.loss(frequencies.expand(deep.d_vocab, -1)),
        corpus.loss(direct_table),
        corpus.loss(table),
    ],
    ["no context", "direct path", "zero layers"],
    x_label="what predicts the next token",
    y_label="loss (nats per token)",
    title="The direct path alone, used as a table",
    levels={"bigram entropy": corpus.entropy},
)

# %% [markdown]
# It knows much about bigrams, and not everything. So a sentence such as "the direct path is the
# bigram table" is exact for zero layers, and for deeper models it's a good first guess.
#
# **Try this.** Your own functions read this model. Remove the `#` once your answers have passed.

# %%
held_out = models.sample_tokens("code")[:2000]
# mine = bigram_table(model.W_E, model.W_U)
# print(next_token_loss(zero_layer_logits(held_out, model.W_E, model.W_U), held_out))
# print(next_token_loss(mine[held_out], held_out), "the same: the table is the model")

# %% [markdown]
# ## What you have shown
#
# | the paper says | you built, or saw |
# |---|---|
# | Without layers the model is $T = W_U W_E$; here, for rows, $W_E W_U$. | `zero_layer_logits`, `bigram_table` |
# | Such a model can at best be a table of bigrams. | `bigram_counts`, `bigram_log_probs`, and the floor: `bigram_entropy` |
# | Training makes it that table. | `next_token_loss`, `train_zero_layer`; the gap closes as d_model grows |
# | The unembedding is not the inverse of the embedding. | section 8 |
# | In deeper models the same term survives as the direct path. | section 9 |
#
# Beyond the paper you saw the price: the gap is what rank `d_model` can't hold, and the best table
# of that rank is *not* the one that an SVD gives (`svd_bigram_table`).
#
# Three things to remember. Logits are defined up to one constant in each row. The logits at
# position $i$ are about token $i + 1$. And "nearest" depends on what is weighed.
#
# This model is blind to everything but the current token. To bring in what came earlier, something
# must carry information from one position to another. On to [02 · Attention
# heads](../02-attention-heads/02-attention-heads.ipynb).

# %%
progress()
