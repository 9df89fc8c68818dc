#include "store/object_record.h"

#include <utility>

#include "store/session.h"

namespace ropeway::store {
namespace {

constexpr uint64_t kObjectVersion = 1;

Status DataLoss(std::string_view what) { return {StatusCode::kDataLoss, std::string(what)}; }

char KindMark(ObjectKind kind) { return kind == ObjectKind::kResponse ? 'r' : 'c'; }

RecordWriter Begun(std::string_view prefix, const std::string& key) {
  RecordWriter writer;
  writer.Number(kObjectVersion);
  writer.Text(prefix);
  writer.Text(key);
  return writer;
}

// Whether the record begins as `Begun` makes it.
bool ReadBeginning(RecordReader* reader, std::string_view prefix, const std::string& key) {
  const bool known = reader->Number() == kObjectVersion;
  return known && reader->Text() == prefix && reader->Text() == key;
}

}  // namespace

std::string ObjectKey(const ObjectName& name) {
  return KindMark(name.kind) + SessionKey(name.tenant, name.id);
}

std::string ObjectDbKey(std::string_view prefix, const std::string& key) {
  return std::string(prefix) + key;
}

bool ParseObjectKey(std::string_view key, ObjectName* name) {
  for (const ObjectKind kind : {ObjectKind::kResponse, ObjectKind::kConversation}) {
    if (key.empty() || key[0] != KindMark(kind)) continue;
    name->kind = kind;
    return ParseSessionKey(key.substr(1), &name->tenant, &name->id);
  }
  return false;
}

ObjectPart PartOf(std::string_view record) { return {record.size(), Checksum(record)}; }

std::string PackObjectHead(const std::string& key, const ObjectHead& head) {
  RecordWriter writer = Begun(kObjectHead, key);
  writer.Number(head.order);
  writer.Number(static_cast<uint64_t>(head.created_ms));
  writer.Number(static_cast<uint64_t>(head.expires_ms));
  writer.Number(head.open ? 1 : 0);
  writer.Number(head.hidden ? 1 : 0);
  writer.Text(head.parent);
  for (const ObjectPart& part : {head.fixed, head.state}) {
    writer.Number(part.bytes);
    writer.Number(part.checksum);
  }
  return std::move(writer).Seal();
}

std::string PackObjectPart(std::string_view prefix, const std::string& key, std::string_view text) {
  RecordWriter writer = Begun(prefix, key);
  writer.Text(text);
  return std::move(writer).Seal();
}

StatusOr<ObjectHead> UnpackObjectHead(const std::string& key, std::string_view record) {
  RecordReader reader(record);
  if (!ReadBeginning(&reader, kObjectHead, key)) {
    return DataLoss("its head is damaged, another object's or of an unknown version");
  }
  ObjectHead head;
  head.order = reader.Number();
  head.created_ms = static_cast<int64_t>(reader.Number());
  head.expires_ms = static_cast<int64_t>(reader.Number());
  head.open = reader.Number() == 1;
  head.hidden = reader.Number() == 1;
  head.parent = reader.Text();
  for (ObjectPart* part : {&head.fixed, &head.state}) {
    part->bytes = reader.Number();
    part->checksum = reader.Number();
  }
  if (!reader.ok()) return DataLoss("its head is damaged");
  return head;
}

StatusOr<std::string> UnpackObjectPart(std::string_view prefix, const std::string& key,
                                       const ObjectPart& part, std::string_view record) {
  const bool fixed = prefix == kObjectFixed;
  if (record.size() != part.bytes || Checksum(record) != part.checksum) {
    return DataLoss(fixed ? "its fixed part is damaged or does not belong to its head"
                          : "its state is damaged or does not belong to its head");
  }
  RecordReader reader(record);
  const bool begins = ReadBeginning(&reader, prefix, key);
  std::string text = reader.Text();
  if (!begins || !reader.ok()) {
    return DataLoss(fixed ? "its fixed part is damaged or has an unknown version"
                          : "its state is damaged or has an unknown version");
  }
  return text;
}

}  // namespace ropeway::store
