package usage

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
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

func newWriter() *writer { return new(writer).begin() }

// begin makes the writer ready for another part.
func (w *writer) begin() *writer {
	if w.hash == nil {
		w.hash = sha256.New()
	}
	w.hash.Reset()
	w.hash.Write(processKey())
	w.part, w.loads = part{most: tokensOfPart}, ""
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
