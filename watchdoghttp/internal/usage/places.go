package usage

import (
	"strings"
	"sync"
)

// A slot says what stands at a place of a response: first are counts, of which there is one each.
type slot uint8

const (
	noSlot slot = iota
	slotInput
	slotCacheWrite
	slotCacheWrite5m
	slotCacheWrite1h
	slotCacheRead
	slotToolInput
	slotOutput
	slotThoughts  // output that is not in slotOutput
	slotReasoning // output that is in slotOutput
	slotTotal
	slotInputImage
	slotInputAudio
	slotOutputImage
	slotOutputAudio
	countSlots

	slotToolRequests
	slotCleared
	slotRoundInput
	slotRoundOutput
	slotDetailTokens
	numberSlots

	slotModel
	slotTier
	slotSpeed
	slotState // what the response or the event is: whether all is over
	slotStop  // why the model stopped
	slotCut   // why an answer ended, where that does not say that all is over
	slotItemType
	slotRoundType
	slotModality
	textSlots

	slotRoot
	slotUsage
	slotChoice
	slotRound
	slotQuery
	slotPromptDetail // tokens of one modality, and those of what was cached, of what tools gave the model, and of output
	slotCacheDetail
	slotToolDetail
	slotOutputDetail
)

// A place is a path in the JSON of a response. In it, brackets are each element of an array, and a star is each other
// key.
type place struct {
	path string
	slot slot
}

// roots have the places of each API's responses and events, as trees. Of two places of one slot that are both there
// the later one counts. They are made when a response is read first, as the tables of requests are.
var roots = sync.OnceValue(func() []*node {
	all := []*node{
		Anthropic: tree(anthropicPlaces()), Chat: tree(chatPlaces()), Responses: tree(responsesPlaces()),
		Gemini: tree(geminiPlaces()),
	}
	all[Gemini].elem = all[Gemini] // a stream is many, as events or as the elements of an array
	return all
})

func within(outer string, places ...place) (inner []place) {
	for _, p := range places {
		inner = append(inner, place{outer + "." + p.path, p.slot})
	}
	return inner
}

// anthropicPlaces are those of a message, and of the events message_start, which has one, and message_delta.
func anthropicPlaces() []place {
	usage := append(within("usage", []place{
		{"input_tokens", slotInput}, {"cache_creation_input_tokens", slotCacheWrite},
		{"cache_creation.ephemeral_5m_input_tokens", slotCacheWrite5m},
		{"cache_creation.ephemeral_1h_input_tokens", slotCacheWrite1h},
		{"cache_read_input_tokens", slotCacheRead}, {"output_tokens", slotOutput},
		{"output_tokens_details.thinking_tokens", slotReasoning}, {"service_tier", slotTier}, {"speed", slotSpeed},
		{"server_tool_use.*", slotToolRequests}, {"iterations[]", slotRound}, {"iterations[].type", slotRoundType},
		{"iterations[].input_tokens", slotRoundInput}, {"iterations[].cache_creation_input_tokens", slotRoundInput},
		{"iterations[].cache_read_input_tokens", slotRoundInput}, {"iterations[].output_tokens", slotRoundOutput},
	}...), []place{
		{"usage", slotUsage}, {"model", slotModel},
		{"context_management.applied_edits[].cleared_input_tokens", slotCleared},
	}...)
	places := append(usage, within("message", usage...)...)
	return append(places, place{"stop_reason", slotStop}, place{"delta.stop_reason", slotStop})
}

func chatPlaces() []place {
	return append(openAIUsage("prompt_tokens", "completion_tokens"), []place{
		{"usage.server_tool_use.*", slotToolRequests}, {"model", slotModel}, {"service_tier", slotTier},
		{"choices[]", slotChoice}, {"choices[].finish_reason", slotCut},
	}...)
}

func responsesPlaces() []place {
	response := append(openAIUsage("input_tokens", "output_tokens"), []place{
		{"model", slotModel}, {"service_tier", slotTier}, {"status", slotState}, {"incomplete_details.reason", slotCut},
		{"output[].type", slotItemType},
	}...)
	places := append([]place{{"object", slotState}, {"type", slotState}}, response...)
	return append(places, within("response", response...)...)
}

// openAIUsage has the places of a usage, in which input and output have those names.
func openAIUsage(input, output string) []place {
	return append(within("usage", []place{
		{input, slotInput}, {output, slotOutput}, {"total_tokens", slotTotal},
		{input + "_details.cached_tokens", slotCacheRead}, {input + "_details.cache_write_tokens", slotCacheWrite},
		{input + "_details.audio_tokens", slotInputAudio}, {input + "_details.image_tokens", slotInputImage},
		{output + "_details.reasoning_tokens", slotReasoning},
		{output + "_details.audio_tokens", slotOutputAudio}, {output + "_details.image_tokens", slotOutputImage},
	}...), place{"usage", slotUsage})
}

// geminiPlaces are those of a response, of which a stream has many.
func geminiPlaces() []place {
	places := []place{
		{"modelVersion", slotModel}, {"candidates[].finishReason", slotCut},
		{"candidates[].groundingMetadata.webSearchQueries[]", slotQuery}, {"usageMetadata", slotUsage},
		{"usageMetadata.promptTokenCount", slotInput},
		{"usageMetadata.cachedContentTokenCount", slotCacheRead}, {"usageMetadata.toolUsePromptTokenCount", slotToolInput},
		{"usageMetadata.candidatesTokenCount", slotOutput}, {"usageMetadata.thoughtsTokenCount", slotThoughts},
		{"usageMetadata.totalTokenCount", slotTotal}, {"usageMetadata.trafficType", slotTier},
		{"usageMetadata.serviceTier", slotTier},
	}
	for i, name := range []string{
		"promptTokensDetails", "cacheTokensDetails", "toolUsePromptTokensDetails", "candidatesTokensDetails",
	} {
		places = append(places, within("usageMetadata", []place{
			{name + "[]", slotPromptDetail + slot(i)}, {name + "[].modality", slotModality},
			{name + "[].tokenCount", slotDetailTokens},
		}...)...)
	}
	return places
}

// A node is a place in the JSON of a response, and what is in it.
type node struct {
	slot slot
	keys map[string]*node // of an object; a star is each other key
	elem *node            // of an array: each element
}

func (n *node) isText() bool { return n != nil && n.slot > numberSlots && n.slot < textSlots }

// follows reports whether something is read of an array, or of an object, at the place.
func (n *node) follows(array bool) bool {
	if n == nil || array {
		return n != nil && n.elem != nil
	}
	return n.keys != nil
}

// child returns the place of a key, nil if that is not read.
func (n *node) child(key []byte) *node {
	if known := n.keys[string(key)]; known != nil {
		return known
	}
	return n.keys["*"]
}

func tree(places []place) *node {
	root := &node{slot: slotRoot}
	for _, p := range places {
		at := root
		for step := range strings.SplitSeq(strings.ReplaceAll(p.path, "[]", ".[]"), ".") {
			at = at.step(step)
		}
		at.slot = p.slot
	}
	return root
}

// step returns the place one step further, and makes it if there is none.
func (n *node) step(step string) *node {
	if step == "[]" {
		if n.elem == nil {
			n.elem = new(node)
		}
		return n.elem
	}
	if n.keys == nil {
		n.keys = map[string]*node{}
	}
	if n.keys[step] == nil {
		n.keys[step] = new(node)
	}
	return n.keys[step]
}
