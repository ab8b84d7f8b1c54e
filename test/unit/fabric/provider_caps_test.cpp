#include "fabric/provider_caps.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

namespace railyard::fabric {
namespace {

TEST(Failures, ConnectionErrorsMeanThatThePeerIsGone) {
    for (int error : {FI_ECONNRESET, FI_ECONNREFUSED, FI_ENOTCONN, FI_ECANCELED, FI_EHOSTUNREACH,
                      FI_ETIMEDOUT, FI_ENODEV, int{FI_ENORX}}) {
        EXPECT_EQ(classify_failure(false, error, 0), Status::remote_disconnect) << error;
    }
    for (int error : {int{FI_EIO}, int{FI_EINVAL}, int{FI_EACCES}, int{FI_EOTHER}})
        EXPECT_EQ(classify_failure(false, error, 0), Status::backend);
}

TEST(Failures, TheCodesOfEfaAreReadOnEfaOnly) {
    for (int gone : {1, 2, 8, 9, 10, 13, 15, 4124, 4126, 4127}) {
        EXPECT_EQ(classify_failure(true, FI_EIO, gone), Status::remote_disconnect) << gone;
        EXPECT_EQ(classify_failure(false, FI_EIO, gone), Status::backend) << gone;
    }
    for (int other : {4, 5, 6, 7, 14, 18})
        EXPECT_EQ(classify_failure(true, FI_EIO, other), Status::backend) << other;
}

}  // namespace
}  // namespace railyard::fabric
