"""Lua scripts of the Redis store, each an atomic step. Each script checks everything before its first write.

Redis runs a script without interruption, but does not undo its writes if it fails. The first write of each script is
one that Redis refuses if it is out of memory, read-only or cannot write to its disk; after a successful first write, no
later write can fail. A script that must also run on a full server begins with a write that frees memory, so that Redis
accepts its later writes. Therefore leases can be taken and models can be deleted even if the memory is full.

Every script on a model gets first the model's keys, in the order of :data:`MODEL_KEYS`, and then the index of models. A
model's chunks are stored under its key "chunk" with a suffix. The model's lease is the string ``epoch:writer``.

A script answers with an array; its first entry is ``ok``, ``gone``, ``fenced``, ``unindexed``, ``torn``, or a refusal
of this script alone.

Redis does not distinguish a key that it evicted from one that never existed. Therefore the hashes of the index and of
the documents have a field with an empty name, which stays when all other fields are removed. The field ``there`` of a
model's ``meta`` hash has the number of the model's :data:`COUNTED` keys that exist. A script writes nothing if it finds
fewer of a model's keys than the field ``there`` says. Scripts make the counters of epochs and changes again if Redis
has lost them.
"""

from __future__ import annotations

COUNTED = ("log", "aborted", "requests", "answers", "order", "snapshots")
"""Keys of a model that nothing else can replace. Of the others, a solution is computed again, and two snapshots are
kept, with all records after the older one."""
MODEL_KEYS = ("meta", *COUNTED, "writing", "chunk", "solution")

COMMANDS = """EVALSHA sha 1 KEY, MULTI, EXEC, SCAN 0, TIME, GET KEY, SET KEY value, SETNX KEY 0, INCR KEY, EXISTS KEY,
DEL KEY, UNLINK KEY, HGET KEY field, HMGET KEY field, HSET KEY field value, HEXISTS KEY field,
HDEL KEY field, HSETNX KEY field value, HLEN KEY, HGETALL KEY, HKEYS KEY, HVALS KEY, SADD KEY one, SREM KEY one,
SMEMBERS KEY, SISMEMBER KEY one, ZADD KEY 1 one, ZSCORE KEY one, ZREM KEY one, ZRANGEBYSCORE KEY 1 2,
XADD KEY * field value, XRANGE KEY - +, XTRIM KEY MINID 1-0"""
"""All commands that the store needs, as :func:`livesvm.service.store.connect.check_server` reads them."""
OPTIONAL = "INFO, BGREWRITEAOF"
"""Commands that only reports of erasures need. A refusal of CONFIG GET is reported with the durability."""

_LEASED = """
local held = redis.call('HMGET', KEYS[1], 'lease', 'there')
if not held[1] then return {'gone'} end
if held[1] ~= ARGV[1] then return {'fenced', held[1]} end
local function there() return redis.call('EXISTS', unpack(KEYS, 2, 7)) end
"""

_OPEN = (
    _LEASED
    + """
local root = string.sub(KEYS[11], 1, -#'models' - 1)
local id = string.sub(KEYS[1], #root + #'m:' + 1, -#':meta' - 1)
if redis.call('HEXISTS', KEYS[11], id) == 0 or redis.call('EXISTS', root .. 'documents') == 0 then
  return {'unindexed'}
end
"""
)

_HELD = (
    _OPEN
    + """
if held[2] and tonumber(held[2]) ~= there() then return {'torn'} end
"""
)

_NOTED = """
redis.call('HSET', KEYS[1], 'there', there())
return {'ok'}
"""

_EPOCH = """
local function new_epoch(epochs, lease)
  local epoch, before = redis.call('INCR', epochs), tonumber(string.match(lease, '^%d+') or 0)
  if epoch <= before then
    epoch = before + 1
    redis.call('SET', epochs, epoch)
  end
  return epoch
end
"""

_CHANGE = """
local function change(changes)
  if redis.call('EXISTS', changes) == 0 then redis.call('SET', changes, redis.call('TIME')[1]) end
  redis.call('INCR', changes)
end
"""

# KEYS: the schema, the index, the documents, the epochs, the changes. ARGV: the schema, a name. What is there stays.
BEGIN = """
redis.call('SET', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], '', ARGV[1])
redis.call('HSETNX', KEYS[3], '', ARGV[2])
for _, counter in ipairs({KEYS[4], KEYS[5]}) do redis.call('SETNX', counter, 0) end
return {'ok'}
"""

_UNLINK = """
local function unlink(nonce, count)
  for i = 0, tonumber(count) - 1 do redis.call('UNLINK', KEYS[9] .. ':' .. nonce .. ':' .. i) end
end
local function unlink_behind(pointer)
  local nonce, count = string.match(pointer, '"nonce": "(%x+)", "chunks": (%d+)')
  if nonce then unlink(nonce, count) end
end
local function unlink_unfinished(but)
  local writing = redis.call('HGETALL', KEYS[8])
  for i = 1, #writing, 2 do
    if writing[i] ~= but then unlink(writing[i], writing[i + 1]) end
  end
  redis.call('DEL', KEYS[8])
end
"""

_WRITTEN = """
local count = redis.call('HGET', KEYS[8], ARGV[2])
if not count then return {'lost'} end
for i = 0, tonumber(count) - 1 do
  if redis.call('EXISTS', KEYS[9] .. ':' .. ARGV[2] .. ':' .. i) == 0 then return {'lost'} end
end
"""

_DESCRIBE = """
local function describe(meta, sequence, summary)
  if summary == '' then redis.call('HDEL', meta, 'described', 'summary')
  else redis.call('HSET', meta, 'described', sequence, 'summary', summary) end
end
"""

# KEYS: the index, the documents, the epochs, the changes, the services that are gone, the model's meta, those counted.
# ARGV: id, spec, writer, holder, sequence, the summary with its checksum or ''.
CREATE = (
    _DESCRIBE
    + _CHANGE
    + """
if redis.call('EXISTS', KEYS[1], KEYS[2]) < 2 then return {'unindexed'} end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return {'exists'} end
local epoch = redis.call('INCR', KEYS[3])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[6], 'lease', epoch .. ':' .. ARGV[3], 'holder', ARGV[4], 'attempt', 0, 'sequence', ARGV[5],
  'there', redis.call('EXISTS', unpack(KEYS, 7)))
describe(KEYS[6], ARGV[5], ARGV[6])
change(KEYS[4])
redis.call('SREM', KEYS[5], ARGV[4])
return {'ok', epoch}
"""
)

# A model that has lost its meta gets one that is damaged, so that it can be deleted or written back.
# KEYS: the epochs, the model's meta, the services that are gone. ARGV: the lease that was seen or '', writer, holder.
ACQUIRE = (
    _EPOCH
    + """
local lease = redis.call('HGET', KEYS[2], 'lease')
if not lease and ARGV[1] ~= '' then return {'gone'} end
if lease and lease ~= ARGV[1] then return {'fenced', lease} end
redis.call('SREM', KEYS[3], ARGV[3])
local epoch = new_epoch(KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'lease', epoch .. ':' .. ARGV[2], 'holder', ARGV[3], 'attempt', 0)
if not lease then redis.call('HSET', KEYS[2], 'sequence', 0, 'there', -1) end
return {'ok', epoch}
"""
)

# KEYS: the epochs, the model's meta. ARGV: writer, attempt.
RETAKE = (
    _EPOCH
    + """
local found = redis.call('HMGET', KEYS[2], 'lease', 'attempt', 'sequence')
if not found[1] then return {'gone'} end
if string.match(found[1], ':(.*)$') ~= ARGV[1] or tonumber(ARGV[2]) <= tonumber(found[2]) then
  return {'fenced', found[1]}
end
redis.call('HDEL', KEYS[2], '')
local epoch = new_epoch(KEYS[1], found[1])
redis.call('HSET', KEYS[2], 'lease', epoch .. ':' .. ARGV[1], 'attempt', ARGV[2])
return {'ok', epoch, found[3]}
"""
)

# KEYS: the key of the service's life, the services that are gone. ARGV: holder.
RELEASE_ALL = "redis.call('DEL', KEYS[1]) redis.call('SADD', KEYS[2], ARGV[1]) return {'ok'}"

# KEYS: the active service, those that are gone. ARGV: holder, the active service that was seen.
CLAIM = """
local active = redis.call('GET', KEYS[1]) or ''
if active ~= ARGV[1] and active ~= ARGV[2] then return {'ok', active} end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SREM', KEYS[2], ARGV[1])
return {'ok', ARGV[1]}
"""

# KEYS: the active service. ARGV: holder.
RESIGN = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return {'ok'}"

# ARGV of this and all that follow: the lease, then what is named.
RELEASE = _LEASED + "redis.call('HSET', KEYS[1], 'holder', '') return {'ok'}"

# ARGV: sequence, the summary with its checksum or ''.
DESCRIBE = _HELD + _DESCRIBE + "describe(KEYS[1], ARGV[2], ARGV[3]) return {'ok'}"

# ARGV: sequence, data, keep, idempotency key or '', the sealed request.
APPEND = (
    _HELD
    + """
local newest = tonumber(redis.call('HGET', KEYS[1], 'sequence'))
local sequence = tonumber(ARGV[2])
if sequence ~= newest + 1 then return {'sequence', newest} end
if ARGV[5] ~= '' and (redis.call('HEXISTS', KEYS[4], ARGV[5]) == 1 or redis.call('ZSCORE', KEYS[6], ARGV[5])) then
  return {'request'}
end
redis.call('XADD', KEYS[2], ARGV[2] .. '-0', 'data', ARGV[3])
for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', sequence - tonumber(ARGV[4]))) do
  redis.call('HDEL', KEYS[4], old)
  redis.call('HDEL', KEYS[5], old)
  redis.call('ZREM', KEYS[6], old)
end
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[4], ARGV[5], ARGV[6])
  redis.call('ZADD', KEYS[6], sequence, ARGV[5])
end
redis.call('HSET', KEYS[1], 'sequence', ARGV[2], 'there', there())
return {'ok'}
"""
)

# ARGV: sequence, the mark. A record that was never written is marked neither.
ABORT = (
    _HELD
    + """
if tonumber(ARGV[2]) > tonumber(redis.call('HGET', KEYS[1], 'sequence')) then return {'ok'} end
redis.call('SREM', KEYS[3], ARGV[3])
redis.call('SADD', KEYS[3], ARGV[3])
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[6], ARGV[2], ARGV[2])) do
  redis.call('HDEL', KEYS[4], key)
  redis.call('HDEL', KEYS[5], key)
  redis.call('ZREM', KEYS[6], key)
end
"""
    + _NOTED
)

LAST_SEQUENCE = _HELD + "return {'ok', redis.call('HGET', KEYS[1], 'sequence')}"

# ARGV: idempotency key, the sealed answer.
REMEMBER = (
    _HELD
    + """
if redis.call('HEXISTS', KEYS[4], ARGV[2]) == 1 then redis.call('HSET', KEYS[5], ARGV[2], ARGV[3]) end
"""
    + _NOTED
)

# ARGV: then for each request its key, sequence, and the sealed request and answer, or '' when it has none.
PUT_REQUESTS = (
    _HELD
    + """
for i = 2, #ARGV, 4 do
  redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 2])
  redis.call('ZADD', KEYS[6], ARGV[i + 1], ARGV[i])
  if ARGV[i + 3] ~= '' then redis.call('HSET', KEYS[5], ARGV[i], ARGV[i + 3]) end
end
"""
    + _NOTED
)

# ARGV: then idempotency keys.
FORGET_REQUESTS = (
    _HELD
    + """
for i = 2, #ARGV do
  for _, key in ipairs({KEYS[4], KEYS[5]}) do redis.call('HDEL', key, ARGV[i]) end
  redis.call('ZREM', KEYS[6], ARGV[i])
end
"""
    + _NOTED
)

# ARGV: the sealed solution.
SAVE_SOLUTION = _HELD + "redis.call('SET', KEYS[10], ARGV[2]) return {'ok'}"

# ARGV: nonce, chunks. What is noted here is removed with the next snapshot if this one is never finished.
BEGIN_SNAPSHOT = _OPEN + "redis.call('HSET', KEYS[8], ARGV[2], ARGV[3]) return {'ok'}"

# ARGV: nonce, number of the chunk, its bytes.
WRITE_CHUNK = (
    _OPEN
    + """
if redis.call('HEXISTS', KEYS[8], ARGV[2]) == 0 then return {'lost'} end
redis.call('SET', KEYS[9] .. ':' .. ARGV[2] .. ':' .. ARGV[3], ARGV[4])
return {'ok'}
"""
)

# A mark that does not name its record is kept as a mark of the newest record, until that record is trimmed.
# ARGV: nonce, sequence, pointer, the summary with its checksum or '', snapshots to keep. Of the pointer's JSON only
# "nonce" and "chunks" are read, by their place, so that one that is damaged elsewhere is removed with its chunks like
# any other.
PUBLISH_SNAPSHOT = (
    _HELD
    + _UNLINK
    + _DESCRIBE
    + _WRITTEN
    + """
local replaced = redis.call('HGET', KEYS[7], ARGV[3])
redis.call('HSET', KEYS[7], ARGV[3], ARGV[4])
if replaced then unlink_behind(replaced) end
describe(KEYS[1], ARGV[3], ARGV[5])
unlink_unfinished(ARGV[2])
local sequences = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[7])) do sequences[#sequences + 1] = tonumber(field) end
table.sort(sequences, function(a, b) return a > b end)
local keep = tonumber(ARGV[6])
for i = keep + 1, #sequences do
  local field = string.format('%.0f', sequences[i])
  unlink_behind(redis.call('HGET', KEYS[7], field))
  redis.call('HDEL', KEYS[7], field)
end
if #sequences >= keep then
  local older = sequences[keep]
  local newest = redis.call('HGET', KEYS[1], 'sequence')
  redis.call('XTRIM', KEYS[2], 'MINID', string.format('%.0f-0', older + 1))
  for _, mark in ipairs(redis.call('SMEMBERS', KEYS[3])) do
    local sequence = tonumber(string.match(mark, '^(%d+):'))
    if not sequence or sequence > tonumber(newest) then
      redis.call('SREM', KEYS[3], mark)
      redis.call('SADD', KEYS[3], newest .. ':damaged')
    elseif sequence <= older then
      redis.call('SREM', KEYS[3], mark)
    end
  end
end
"""
    + _NOTED
)

# ARGV: nonce, sequence, pointer, the summary as above. As the script above, but nothing else is kept, and the log goes
# on after this record.
SUPERSEDE = (
    _OPEN
    + _UNLINK
    + _DESCRIBE
    + """
local newest = tonumber(redis.call('HGET', KEYS[1], 'sequence'))
if newest > tonumber(ARGV[3]) then return {'sequence', newest} end
"""
    + _WRITTEN
    + """
redis.call('HSET', KEYS[1], 'sequence', ARGV[3])
describe(KEYS[1], ARGV[3], ARGV[5])
local replaced = redis.call('HVALS', KEYS[7])
redis.call('DEL', KEYS[7])
redis.call('HSET', KEYS[7], ARGV[3], ARGV[4])
for _, pointer in ipairs(replaced) do unlink_behind(pointer) end
unlink_unfinished(ARGV[2])
for _, key in ipairs({KEYS[2], KEYS[3], KEYS[10]}) do redis.call('UNLINK', key) end
"""
    + _NOTED
)

# KEYS: the model's, the index, the changes. ARGV: id.
DELETE = (
    _LEASED
    + _CHANGE
    + _UNLINK
    + """
for _, pointer in ipairs(redis.call('HVALS', KEYS[7])) do
  unlink_behind(pointer)
end
unlink_unfinished('')
for i = 1, #KEYS - 2 do redis.call('UNLINK', KEYS[i]) end
redis.call('HDEL', KEYS[#KEYS - 1], ARGV[2])
change(KEYS[#KEYS])
return {'ok'}
"""
)

# KEYS: the documents. ARGV: the name, the document, whether a full server takes it.
PUT_DOCUMENT = """
if redis.call('EXISTS', KEYS[1]) == 0 then return {'unindexed'} end
if ARGV[3] == '1' then redis.call('HDEL', KEYS[1], ARGV[1]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return {'ok'}
"""
