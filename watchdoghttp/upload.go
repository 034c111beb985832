package watchdoghttp

import (
	"io"
	"net/http"
)

// smallBody is the length up to which a request's body is not watched as it is sent, where the request has a copy of it
// in memory: it is gone in an instant, and sends itself in one packet with the header if it is left as it is.
const smallBody = 1 << 20

// watchUpload makes the request's body signs of life, and so each copy of it that the base sends on another connection.
func (s *stream) watchUpload(req *http.Request) {
	if noBody(req.Body) || inOnePacket(req) {
		return
	}
	req.Body = &sentBody{req.Body, s}
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil || noBody(body) {
				return body, err
			}
			return &sentBody{body, s}, nil
		}
	}
}

func noBody(body io.ReadCloser) bool { return body == nil || body == http.NoBody }

// inOnePacket reports whether the request has a body of a small known length in memory. To net/http 0 with a body is as
// unknown as -1.
func inOnePacket(req *http.Request) bool {
	return req.GetBody != nil && req.ContentLength > 0 && req.ContentLength <= smallBody
}

// sentBody is the body of the request.
type sentBody struct {
	io.ReadCloser
	stream *stream
}

// Read implements [io.Reader].
func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.stream.sent(n)
	return n, err
}
