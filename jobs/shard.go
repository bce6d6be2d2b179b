package jobs

import "hash/fnv"

// MostShards bounds the shards of a client.
const MostShards = 64

// ShardOf is the shard, from 0 on, that writes a record of a client split into so
// many. It never changes for a record and a number of shards.
func ShardOf(k EntityKey, shards int) int {
	if shards <= 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(k.Entity))
	h.Write([]byte{0})
	h.Write([]byte(k.Key))
	return int(h.Sum32() % uint32(shards))
}
