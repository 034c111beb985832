package usage

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Peek returns the body of a request, read from a copy that the request makes of it: what is sent stays as it is. It
// reads no more than the limit, and decompresses gzip to no more than that. If it cannot read the body the reason is
// not Readable.
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
	body, err = io.ReadAll(io.LimitReader(again, limit+1))
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

// WithUsage returns the body of a request for a stream of Chat Completions with include_usage, and whether it is
// another body. A request that sets it already, to whatever, is left alone. All other bytes stay as they are.
func WithUsage(call *Call, body []byte) (changed []byte, ok bool) {
	if call.API != Chat || !call.Stream || call.Usage || call.input.reason == Malformed {
		return body, false
	}
	options := value(nil)
	value(bytes.TrimSpace(body)).members(func(key string, member value) {
		if key == "stream_options" {
			options = member
		}
	})
	at, insert := bytes.IndexByte(body, '{')+1, `"stream_options":{`+includeUsage+`},`
	switch {
	case options == nil:
	case string(options) == "null":
		return splice(body, cap(body)-cap(options), len("null"), `{`+includeUsage+`}`), true
	case options[0] != '{' || hasMember(options, "include_usage"):
		return body, false
	default:
		at, insert = cap(body)-cap(options)+1, includeUsage+","
		if options.isEmptyObject() {
			insert = includeUsage
		}
	}
	return splice(body, at, 0, insert), true
}

func splice(body []byte, at, drop int, insert string) []byte {
	changed := make([]byte, 0, len(body)+len(insert))
	changed = append(append(changed, body[:at]...), insert...)
	return append(changed, body[at+drop:]...)
}

func hasMember(v value, name string) (has bool) {
	v.members(func(key string, _ value) { has = has || key == name })
	return has
}

func (v value) isEmptyObject() bool { return v[skipSpace(v, 1)] == '}' }
