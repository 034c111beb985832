package usage

import "sync"

// treeOf says where the responses and events of an API have their usage. The trees are made when a response is read
// first, as the tables of requests are.
func treeOf(api API) *node {
	treesMade.Do(func() {
		trees = [...]*node{
			Anthropic: tree(anthropicPaths()), Chat: tree(chatPaths()), Responses: tree(responsesPaths()),
			Gemini: geminiTree(),
		}
	})
	return trees[api]
}

var (
	treesMade sync.Once
	trees     [Gemini + 1]*node
)

// anthropicPaths are those of a message, and of the events message_start, which has one, and message_delta.
func anthropicPaths() map[string]slot {
	paths := map[string]slot{
		"model": slotModel, "message.model": slotModel, "stop_reason": slotStop, "delta.stop_reason": slotStop,
	}
	for _, edits := range []string{"context_management.applied_edits", "message.context_management.applied_edits"} {
		paths[edits], paths[edits+"[].cleared_input_tokens"] = slotEdits, slotEdit
	}
	for _, usage := range []string{"usage", "message.usage"} {
		paths[usage] = slotUsage
		for key, slot := range map[string]slot{
			"input_tokens": slotInput, "cache_creation_input_tokens": slotCacheWrite,
			"cache_creation.ephemeral_5m_input_tokens": slotCacheWrite5m,
			"cache_creation.ephemeral_1h_input_tokens": slotCacheWrite1h,
			"cache_read_input_tokens":                  slotCacheRead, "output_tokens": slotOutput,
			"output_tokens_details.thinking_tokens": slotReasoning, "service_tier": slotTier, "speed": slotSpeed,
			"server_tool_use": slotTools, "server_tool_use.*": slotToolRequests,
			"iterations": slotRounds, "iterations[]": slotRounds, "iterations[].type": slotRoundType,
			"iterations[].input_tokens": slotRoundIn, "iterations[].cache_creation_input_tokens": slotRoundIn,
			"iterations[].cache_read_input_tokens": slotRoundIn, "iterations[].output_tokens": slotRoundOut,
		} {
			paths[usage+"."+key] = slot
		}
	}
	return paths
}

// chatPaths are those of a completion, and of its chunks.
func chatPaths() map[string]slot {
	return map[string]slot{
		"model": slotModel, "service_tier": slotTier, "choices[]": slotChoice, "choices[].finish_reason": slotCut,
		"usage":               slotUsage,
		"usage.prompt_tokens": slotInput, "usage.completion_tokens": slotOutput, "usage.total_tokens": slotTotal,
		"usage.prompt_tokens_details.cached_tokens":        slotCacheRead,
		"usage.prompt_tokens_details.cache_write_tokens":   slotCacheWrite,
		"usage.prompt_tokens_details.audio_tokens":         slotInputAudio,
		"usage.prompt_tokens_details.image_tokens":         slotInputImage,
		"usage.completion_tokens_details.reasoning_tokens": slotReasoning,
		"usage.completion_tokens_details.audio_tokens":     slotOutputAudio,
		"usage.completion_tokens_details.image_tokens":     slotOutputImage,
		"usage.server_tool_use":                            slotTools,
		"usage.server_tool_use.*":                          slotToolRequests,
	}
}

// responsesPaths are those of a response, and of the events that have one.
func responsesPaths() map[string]slot {
	paths := map[string]slot{"type": slotType, "object": slotObject}
	for _, response := range []string{"", "response."} {
		for key, slot := range map[string]slot{
			"model": slotModel, "service_tier": slotTier, "status": slotStatus, "incomplete_details.reason": slotCut,
			"output":        slotTools,
			"output[].type": slotItemType, "usage": slotUsage, "usage.input_tokens": slotInput,
			"usage.output_tokens": slotOutput, "usage.total_tokens": slotTotal,
			"usage.input_tokens_details.cached_tokens":      slotCacheRead,
			"usage.input_tokens_details.cache_write_tokens": slotCacheWrite,
			"usage.input_tokens_details.audio_tokens":       slotInputAudio,
			"usage.input_tokens_details.image_tokens":       slotInputImage,
			"usage.output_tokens_details.reasoning_tokens":  slotReasoning,
			"usage.output_tokens_details.audio_tokens":      slotOutputAudio,
			"usage.output_tokens_details.image_tokens":      slotOutputImage,
		} {
			paths[response+key] = slot
		}
	}
	return paths
}

// geminiTree is that of a response. A stream is many, as events or as the elements of an array.
func geminiTree() *node {
	paths := map[string]slot{
		"modelVersion": slotModel, "candidates[].finishReason": slotCut,
		"candidates[].groundingMetadata.webSearchQueries[]": slotQuery,
		"usageMetadata": slotUsage, "usageMetadata.promptTokenCount": slotInput,
		"usageMetadata.cachedContentTokenCount": slotCacheRead, "usageMetadata.toolUsePromptTokenCount": slotToolInput,
		"usageMetadata.candidatesTokenCount": slotOutput, "usageMetadata.thoughtsTokenCount": slotThoughts,
		"usageMetadata.totalTokenCount": slotTotal, "usageMetadata.trafficType": slotTier,
		"usageMetadata.serviceTier": slotTier,
	}
	for key, slot := range map[string]slot{
		"promptTokensDetails": slotInputBy, "cacheTokensDetails": slotCacheReadBy,
		"toolUsePromptTokensDetails": slotToolInputBy, "candidatesTokensDetails": slotOutputBy,
	} {
		details := "usageMetadata." + key
		paths[details], paths[details+"[]"] = slot, slot
		paths[details+"[].modality"], paths[details+"[].tokenCount"] = slotModality, slotModalSize
	}
	root := tree(paths)
	root.elem = root
	return root
}
