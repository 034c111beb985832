package usage

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
)

// A digest stands for a part of a request. It is keyed with processKey, so that what a part says cannot be found from
// it by trying texts, and long enough that no two parts have the same.
type digest [16]byte

// processKey is of this process alone.
var processKey = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.BlockSize)
	_, _ = rand.Read(key) // it never fails
	return key
})

// A part is a piece of a request that the API turns into tokens by itself: the definition of a tool, a block of text, a
// call of a tool, its result, or what else a message has, its role among it.
type part struct {
	digest digest
	// most are its tokens at most by its bytes, with tokensOfPart; extra are those that bytes do not tell.
	most, extra int64
	// images and files are how many it has in the body. Their bytes do not tell their tokens.
	images, files int64
	// opaque is what the API can read and nobody else: reasoning, or what a conversation was compacted to. It stands for
	// as much as an answer can be.
	opaque bool
	// left is what the API can leave out: reasoning, or a message that is not for long.
	left bool
	// made is what the model made; result is what a tool of the host's gave it. Its ID makes it another one each time.
	made, result bool
	// hides is a part that the API reads in the place of all that is before it.
	hides bool
	// varying are bytes that are different in each call, though the digest is the same.
	varying int64
}

// A writer gathers a part, or what is no part, while the request is walked. What is written to it is told apart from
// what is only long by count.
type writer struct {
	part
	hash  hash.Hash
	head  []byte // of a member: the lengths, and its name
	loads string // the name of a tool that is loaded with the part
}

// opaque, compacted, result and found are what a part can be beside text; see [kind].
func opaque(p *part) { p.opaque, p.left = true, true }

func compacted(p *part) { p.opaque, p.hides = true, true }

func result(p *part) { p.result = true }

// found is what the API's own tools found in an earlier call. Some of it is encrypted, and may stand for more.
func found(p *part) { p.extra = resultTokens }

func newWriter() *writer {
	w := &writer{part: part{most: tokensOfPart}, hash: sha256.New()}
	w.hash.Write(processKey())
	return w
}

// put adds a member: its text is input.
func (w *writer) put(name string, v value) {
	w.note(name, v)
	w.most = sum(w.most, int64(len(name)+len(v)+len(`"":,`)))
}

// note adds a member whose length says nothing about its tokens.
func (w *writer) note(name string, v value) {
	w.head = binary.LittleEndian.AppendUint64(w.head[:0], uint64(len(name)))
	w.head = binary.LittleEndian.AppendUint64(w.head, uint64(len(v)))
	w.head = append(w.head, name...)
	w.hash.Write(w.head)
	w.hash.Write(v)
}

func (w *writer) sum() (d digest) {
	w.head = w.hash.Sum(w.head[:0])
	copy(d[:], w.head)
	return d
}

// images are the most tokens of one image, by the names of models, in which a "*" stands for any characters. As of
// 2026-11-27, by the vendors' pages on images:
//
//   - Anthropic scales an image down to 1,600 tokens, and since Opus 4.7 to 4,784.
//   - OpenAI scales one down to 2,048 by 768 pixels, that is 8 tiles and a base, or to 1,536 patches times a factor of
//     the model, 2.46 at most; since GPT-5.4 an image of detail "original" can have 10,000 patches. For GPT-6 no number
//     is published that was found, and 12,000 patches were seen: here it is one of 8,000 by 8,000 pixels.
//   - Google scales one down to 3,072 pixels, which it cuts to 24 tiles of 258 tokens at most; where the request says
//     its resolution, it has 2,240 at most.
var images = map[string]int64{
	"*claude-*": 4_784, "*claude-3-*": 1_600, "*claude-opus-4-0*": 1_600, "*claude-opus-4-1*": 1_600,
	"*claude-opus-4-2025*": 1_600, "*claude-opus-4-5*": 1_600, "*claude-opus-4-6*": 1_600, "*claude-sonnet-4-*": 1_600,
	"*claude-haiku-4-5*": 1_600,
	"*gpt-4o*":           1_445, "*gpt-4o-mini*": 48_169, "*gpt-4-turbo*": 1_445, "*gpt-4.1*": 3_779, "o1*": 1_445,
	"o3*": 1_445, "o4-mini*": 3_779, "*gpt-5": 1_536, "*gpt-5-*": 3_779, "*gpt-5.1*": 3_779, "*gpt-5.2*": 3_779,
	"*gpt-5.3*": 3_779, "*gpt-5*": 24_600, "*gpt-6*": mostImage, "*gemini-*": 6_192,
}

// mostImage is what an image has at most of a model that is not in the table.
const mostImage = 75_000

// largestWindow is the window of a model whose window is not known. No vendor publishes a larger one.
const largestWindow = 1_050_000

// mediaData is a field that has media, of the type that was read before.
func mediaData(r *request, v value) { r.media(r.kind, v) }

// media takes data in the body that are no text, by their type. The tokens of what is no image follow from how many
// pages or seconds it has, and a few bytes can have many, so that it is bounded by the model's window alone.
func (r *request) media(kind string, data value) {
	w := r.at
	switch {
	case data.isNothing():
		return
	case strings.HasPrefix(kind, "text/"), kind == "application/json":
		w.put(r.name, data) // what is encoded is longer than what it encodes
		return
	case strings.HasPrefix(kind, "image/"):
		w.images++
	default:
		w.files++
	}
	w.note(r.name, data)
	r.call.skipped += int64(len(data))
}

// costsOf returns what each part can have at most, and whether some of them have more than their bytes.
func (c *Call) costsOf(most, known Maximum) (costs []int64, more bool) {
	image, found := Best(images, c.Model)
	if !found {
		image = mostImage
	}
	window := cmp.Or(most.Input, known.Input, largestWindow)
	answer := cmp.Or(most.Output, known.Output)
	costs = make([]int64, len(c.parts))
	for i, p := range c.parts {
		costs[i] = sum(p.most, p.extra, product(p.images, image), product(p.files, window))
		if p.opaque {
			costs[i] = max(costs[i], answer)
		}
		more = more || costs[i] > p.most
	}
	return costs, more
}
