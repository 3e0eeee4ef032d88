#include <vector>
#include "store.hpp"

namespace money {

template <typename T>
class Ledger : public Store, private detail::Counted<T> {
public:
    explicit Ledger(std::string name);
    virtual ~Ledger() = default;

    void add(T entry) {
        entries_.push_back(std::move(entry));
    }

    long total() const;

private:
    std::vector<T> entries_;
};

template <typename T>
long Ledger<T>::total() const {
    long sum = 0;
    for (const auto &entry : entries_) {
        sum += clamp(entry.amount);
    }
    return sum;
}

enum class Kind { Debit, Credit };

using Amount = long;

Store *Store::open(const std::string &path) {
    return new FileStore(path);
}

}  // namespace money

int main() {
    money::Ledger<money::Entry> ledger("main");
    return static_cast<int>(ledger.total());
}
