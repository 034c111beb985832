package usage

import (
	"net/http"
	"slices"
	"strings"
)

// An API is a family of model APIs with one wire format.
type API uint8

// The APIs whose usage is read. None is any other request.
const (
	None API = iota
	Anthropic
	Chat
	Responses
	Gemini
)

// A Route is what the method and the path of a request say about it, on any host.
type Route struct {
	API API
	// Model is the one that the path names, or empty.
	Model string
	// Stream says that the path asks for a stream.
	Stream bool
	// Compacts says that the path is that of a call to compact a conversation.
	Compacts bool
	// Unread names a path of a model API that uses something up and is not read here. API is None then.
	Unread string
}

// unread are the ends of paths that are billed and not read: batches are answered much later, others have no usage that
// is known here.
var unread = []string{
	"/v1/complete", "/messages/batches", "/v1/completions", "/embeddings", "/v1/batches", "/audio/speech",
	"/audio/transcriptions", "/audio/translations", "/images/generations", "/images/edits", "/images/variations",
	"/v1/videos", "/realtime", "/invoke", "/invoke-with-response-stream", "/converse", "/converse-stream",
	":embedContent", ":batchEmbedContents", ":batchGenerateContent", ":predict", ":predictLongRunning",
	":streamRawPredict", ":rawPredict", ":generateAnswer", ":asyncBatchEmbedContent",
}

// RouteOf returns the route of a request, by its method and its decoded path. A path of the right form can still be
// another service's: [ReadCall] looks at the body.
func RouteOf(method, path string) Route {
	path = strings.TrimRight(path, "/")
	switch {
	case method != http.MethodPost:
		return Route{}
	case strings.HasSuffix(path, "/v1/messages"):
		return Route{API: Anthropic}
	case strings.HasSuffix(path, "/chat/completions"):
		return Route{API: Chat, Model: deployment(path)}
	case strings.HasSuffix(path, "/responses"):
		return Route{API: Responses, Model: deployment(path)}
	case strings.HasSuffix(path, "/responses/compact"):
		return Route{API: Responses, Model: deployment(path), Compacts: true}
	}
	name, verb, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	switch verb {
	case "generateContent":
		return Route{API: Gemini, Model: name}
	case "streamGenerateContent":
		return Route{API: Gemini, Model: name, Stream: true}
	}
	for _, end := range unread {
		if strings.HasSuffix(path, end) {
			return Route{Unread: strings.TrimLeft(end, "/:")}
		}
	}
	return Route{}
}

// deployment returns the name that a path in the style of Azure has for the model.
func deployment(path string) string {
	_, rest, found := strings.Cut(path, "/deployments/")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// A Bill is what a call without usage was billed.
type Bill uint8

// The bills: Read says that the response's body tells; Void that nothing can have been billed; Admitted that anything
// up to the admission can.
const (
	Read Bill = iota
	Void
	Admitted
)

// vendors are the hosts of those who run the models themselves, and bill no call that they answered with an error. As
// of 2026-08-21: Google says so of 400 and 500; Anthropic and OpenAI document no live call that failed as billed.
var vendors = []string{"api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"}

// ErrorsFree reports whether a host bills no call that it answered with an error: a vendor's own, or one that is
// declared to. A declared name has no port.
func ErrorsFree(host string, declared []string) bool {
	return slices.Contains(vendors, host) || slices.Contains(declared, host)
}

// Billing returns what a response of that status means. A call counts as admitted unless its API is known to bill
// nothing for the status: one that is turned away by its credentials, its size or a rate limit uses nothing anywhere.
//
//   - A host whose errors are free bills no 4xx and no 5xx. A 408, a 499 and a 504 can still come from what stands
//     before the model, while it works on.
//   - Azure bills prompt and answer where a content filter turns a 400 out of them, and bills 408. So for the APIs of
//     OpenAI a 400 is no proof; nor is 422, which compatible servers send after the model has answered.
//   - Google bills nothing for a 400 or a 500.
//   - Anthropic checks a request before the model begins: it turned a 400 away, and had no room for a 529.
//   - A redirect is no model's answer; the call that follows it is one of its own.
//   - A 408, a 499 and any other 5xx can come from a proxy while the model works on.
func Billing(api API, status int, errorsFree bool) Bill {
	isError := status >= 400 && status < 600
	switch {
	case status >= 200 && status < 300:
		return Read
	case slices.Contains(turnedAway, status):
		return Void
	case slices.Contains(inDoubt, status):
		return Admitted
	case isError && (errorsFree || slices.Contains(freeErrors[api], status)):
		return Void
	}
	return Admitted
}

// turnedAway are the statuses of calls that no model has seen, inDoubt those of calls that one may have answered,
// whatever the host is.
var (
	turnedAway = []int{
		http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusTooManyRequests,
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect,
	}
	inDoubt = []int{http.StatusRequestTimeout, statusClientClosed, http.StatusGatewayTimeout}
)

// freeErrors are those that an API bills nothing for.
var freeErrors = map[API][]int{
	Anthropic: {http.StatusBadRequest, statusOverloaded}, Gemini: {http.StatusBadRequest, http.StatusInternalServerError},
}

// Statuses that have no name: one is what proxies log of a client that went away, the other is Anthropic's.
const (
	statusClientClosed = 499
	statusOverloaded   = 529
)
