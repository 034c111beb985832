package usage

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Peek returns the body of a request, read from a copy that the request makes of it: what is sent stays as it is. One
// with Bytes, as that of modelproxy, is read where it lies. Peek reads no more than the limit, and decompresses gzip to
// no more than that. If it cannot read the body the reason is not Readable.
func Peek(req *http.Request, limit int64) (body []byte, why Reason) {
	encoding := strings.ToLower(req.Header.Get("Content-Encoding"))
	switch {
	case !slices.Contains([]string{"", "identity", "gzip", "x-gzip"}, encoding):
		return nil, Encoded
	case req.Body == nil || req.Body == http.NoBody:
		return nil, Readable
	case req.ContentLength > limit:
		return nil, TooLong
	case req.GetBody == nil:
		return nil, Unseekable
	}
	again, err := req.GetBody()
	if err != nil {
		return nil, Unseekable
	}
	body, err = readAll(again, req.ContentLength, limit)
	closeErr := again.Close()
	switch {
	case int64(len(body)) > limit:
		return nil, TooLong
	case err != nil || closeErr != nil:
		return nil, Unseekable
	case strings.HasSuffix(encoding, "gzip"):
		return unzip(body, limit)
	}
	return body, Readable
}

// readAll reads a body of that length, if it is known, up to a byte beyond the limit.
func readAll(r io.Reader, length, limit int64) ([]byte, error) {
	if held, ok := r.(interface{ Bytes() []byte }); ok {
		if all := held.Bytes(); int64(len(all)) == length { // not only what was read until now
			return all, nil
		}
	}
	var body bytes.Buffer
	body.Grow(int(max(length, 0)) + bytes.MinRead) // what is read is held once, and grows no more
	_, err := body.ReadFrom(io.LimitReader(r, limit+1))
	return body.Bytes(), err
}

// unzip decompresses a body.
func unzip(zipped []byte, limit int64) (body []byte, why Reason) {
	reader, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, Encoded
	}
	body, err = io.ReadAll(io.LimitReader(reader, limit+1))
	switch {
	case int64(len(body)) > limit:
		return nil, TooLong
	case err != nil:
		return nil, Encoded
	}
	return body, Readable
}

// includeUsage is what a stream of Chat Completions needs to end with its usage.
const includeUsage = `"include_usage":true`

// A Change is what is sent in the place of a part of a body.
type Change struct {
	at   span
	text string
}

// Pieces returns a body with changes as what is sent of it, in order: all other bytes lie where they are. Of changes at
// one place the first comes first.
func Pieces(body []byte, changes []Change) [][]byte {
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.at.from, b.at.from) })
	pieces, from := make([][]byte, 0, 2*len(changes)+1), 0
	for _, c := range changes {
		pieces = append(pieces, body[from:c.at.from], []byte(c.text))
		from = c.at.to
	}
	return append(pieces, body[from:])
}

// WithUsage returns the change of a request for a stream of Chat Completions to one with include_usage, and whether it
// needs one. A request that sets it already, to whatever, is left alone.
func (c *Call) WithUsage() (change Change, ok bool) {
	needs := c.API == Chat && c.Stream && !c.Usage && c.input.reason != Malformed
	return c.asks, needs && c.asks != Change{}
}

func hasMember(v value, name string) (has bool) {
	v.members(func(key string, _ value) { has = has || key == name })
	return has
}

func (v value) isEmptyObject() bool { return v[skipSpace(v, 1)] == '}' }
