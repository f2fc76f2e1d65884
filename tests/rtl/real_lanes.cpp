// Arithmetic of one real lane, called by sv/real_lane.sv; numbers come and go as their bits.
//
// Functions of IEEE 754 are its own, float32 by float32. Series are the C library's in float64, rounded to float32.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "isa_words.h"

namespace {

float real(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

uint32_t bits(float x) {
    uint32_t word;
    std::memcpy(&word, &x, sizeof word);
    return word;
}

double wide(uint64_t bits) {
    double x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

uint64_t wide_bits(double x) {
    uint64_t word;
    std::memcpy(&word, &x, sizeof word);
    return word;
}

float of_half(uint32_t half) {
    const int exponent = half >> 10 & 31;
    const int fraction = half & 1023;
    const bool negative = half >> 15 & 1;
    if (exponent == 31 && fraction) return real((half & 0x8000) << 16 | 0x7fc00000 | fraction << 13);
    const float size = exponent == 31 ? INFINITY
                       : exponent     ? std::ldexp(float(1024 + fraction), exponent - 25)
                                      : std::ldexp(float(fraction), -24);
    return negative ? -size : size;
}

// To nearest, halves to even. Beyond 65504 and half a step the result is infinite.
uint32_t half_of(float x) {
    const uint32_t sign = bits(x) >> 16 & 0x8000;
    const uint32_t magnitude = bits(x) & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7e00 | (magnitude >> 13 & 0x3ff);
    if (magnitude >= 0x477ff000) return sign | 0x7c00;
    const int exponent = std::max(int(magnitude >> 23) - 127, -14);
    const double steps = std::ldexp(double(real(magnitude)), 10 - exponent);  // of the last place
    const uint32_t rounded = uint32_t(std::nearbyint(steps));
    return sign | (uint32_t(exponent + 14) * 1024 + rounded);  // 1024 steps and more carry into the exponent
}

// Of two equal numbers the second; what is no number stays so.
template <typename Real>
Real larger(Real a, Real b) {
    return a > b || std::isnan(a) ? a : b;
}

template <typename Real>
Real smaller(Real a, Real b) {
    return a < b || std::isnan(a) ? a : b;
}

float between(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

float activated(float x, unsigned activation) {
    switch (activation) {
        case ACTIVATION_RELU: return x < 0 ? 0 : x;
        case ACTIVATION_RELU6: return between(x, 0, 6);
        case ACTIVATION_RELU_N1_TO_1: return between(x, -1, 1);
        default: return x;
    }
}

// With the sign of the divisor.
float floor_mod(float a, float b) {
    const float rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

float binary(unsigned function, float a, float b) {
    switch (function) {
        case BINARY_ADD: return a + b;
        case BINARY_SUB: return a - b;
        case BINARY_MUL: return a * b;
        case BINARY_DIV: return a / b;
        case BINARY_MAX: return larger(a, b);
        case BINARY_MIN: return smaller(a, b);
        case BINARY_SQUARED_DIFFERENCE: return (a - b) * (a - b);
        case BINARY_PRELU: return a >= 0 ? a : a * b;
        case BINARY_POW: return float(std::pow(double(a), double(b)));
        case BINARY_FLOOR_DIV: return std::floor(a / b);
        default: return floor_mod(a, b);
    }
}

bool truth(unsigned function, float a, float b) {
    switch (function) {
        case BINARY_EQUAL: return a == b;
        case BINARY_NOT_EQUAL: return a != b;
        case BINARY_GREATER: return a > b;
        case BINARY_GREATER_EQUAL: return a >= b;
        case BINARY_LESS: return a < b;
        default: return a <= b;
    }
}

// Those without roots and series.
float simple(unsigned function, float x, float alpha) {
    switch (function) {
        case UNARY_COPY: return x;
        case UNARY_ABS: return std::fabs(x);
        case UNARY_NEG: return -x;
        case UNARY_SQUARE: return x * x;
        case UNARY_FLOOR: return std::floor(x);
        case UNARY_CEIL: return std::ceil(x);
        case UNARY_ROUND: return std::nearbyint(x) > std::floor(x) ? std::floor(x) + 1 : std::nearbyint(x);
        case UNARY_SIGN: return std::isnan(x) ? x : float((x > 0) - (x < 0));
        case UNARY_RELU: return x < 0 ? 0 : x;
        case UNARY_RELU6: return between(x, 0, 6);
        case UNARY_RELU_N1_TO_1: return between(x, -1, 1);
        case UNARY_RELU_0_TO_1: return between(x, 0, 1);
        case UNARY_LEAKY_RELU: return x > 0 ? x : x * alpha;
        default: return x * between(x + 3, 0, 6) / 6;  // hard swish
    }
}

float unary(unsigned function, float x, float alpha) {
    const float one = 1, half = 0.5f, root_of_half = float(std::sqrt(0.5));
    const float slope = float(std::sqrt(2 / std::acos(-1.0)));
    switch (function) {
        case UNARY_ELU: return x < 0 ? alpha * float(std::expm1(double(x))) : x;
        case UNARY_SQRT: return std::sqrt(x);
        case UNARY_RSQRT: return one / std::sqrt(x);
        case UNARY_EXP: return float(std::exp(double(x)));
        case UNARY_LOG: return float(std::log(double(x)));
        case UNARY_SIN: return float(std::sin(double(x)));
        case UNARY_COS: return float(std::cos(double(x)));
        case UNARY_TANH: return float(std::tanh(double(x)));
        case UNARY_LOGISTIC: return one / (one + float(std::exp(smaller(-double(x), 88.0))));
        case UNARY_GELU: return half * x * (one + float(std::erf(double(x * root_of_half))));
        case UNARY_GELU_BY_TANH:
            return half * x * (one + float(std::tanh(double(slope * (x + 0.044715f * x * x * x)))));
        case UNARY_ERF: return float(std::erf(double(x)));
        default: return simple(function, x, alpha);
    }
}

// Whole steps as a code within bounds; of no number the smallest code of the type.
unsigned code_of_steps(float steps, int low, int high, int least) {
    if (std::isnan(steps)) return unsigned(least) & 255;
    return unsigned(int(between(steps, float(low), float(high)))) & 255;
}

float real_of(int code, unsigned scale, int zero) { return float(code - zero) * real(scale); }

float literal(unsigned function, float a, float b) {
    switch (function) {
        case BINARY_ADD: return a + b;
        case BINARY_SUB: return a - b;
        case BINARY_MUL: return a * b;
        case BINARY_DIV: return a / b;
        case BINARY_MAX: return larger(a, b);
        case BINARY_MIN: return smaller(a, b);
        default: return a < 0 ? a * b : a;  // prelu
    }
}

// Two float32 in 64 bits.
uint64_t both(float low, float high) { return uint64_t(bits(high)) << 32 | bits(low); }

}  // namespace

extern "C" {

unsigned float_pair(unsigned function, int a, int b, unsigned a_scale, unsigned b_scale, unsigned output_scale,
                    int a_zero, int b_zero, int output_zero, int low, int high, int least) {
    float steps;
    if (function == BINARY_FUSED_ADD) {
        steps = std::nearbyintf(
            std::fmaf(real(a_scale), float(a), std::fmaf(real(b_scale), float(b), real(output_scale))));
    } else if (function == BINARY_FUSED_MUL) {
        const float product = float((a - a_zero) * (b - b_zero)) * real(output_scale);
        steps = std::nearbyintf(product + float(output_zero));
    } else {
        const float value = literal(function, real_of(a, a_scale, a_zero), real_of(b, b_scale, b_zero));
        steps = std::nearbyintf(value / real(output_scale)) + float(output_zero);
    }
    return code_of_steps(steps, low, high, least);
}

// The sum so far in the low half, that of the column in the high half.
unsigned long long float_pool_step(unsigned by_columns, unsigned first, unsigned opens, unsigned covered,
                                   unsigned long long gathered, int x, unsigned scale, int zero) {
    float sum = first ? 0 : real(uint32_t(gathered));
    float column = first ? 0 : real(uint32_t(gathered >> 32));
    if (by_columns && opens) {
        sum += column;
        column = 0;
    }
    if (covered) (by_columns ? column : sum) += real_of(x, scale, zero);
    return both(sum, column);
}

unsigned float_pool_result(unsigned fused, unsigned long long gathered, unsigned number, unsigned scale, int zero,
                           int low, int high, int least) {
    const float sum = real(uint32_t(gathered)) + real(uint32_t(gathered >> 32));
    const float steps = sum / float(number) / real(scale);
    const float rounded = fused ? std::nearbyintf(steps + float(zero)) : std::nearbyintf(steps) + float(zero);
    return code_of_steps(rounded, low, high, least);
}

unsigned long long float_reduce_step(unsigned function, unsigned first, unsigned long long gathered, int x,
                                     unsigned scale, int zero) {
    const double before = first ? 0 : wide(gathered);
    return wide_bits(before + (function == REDUCE_FUSED_MEAN ? double(x - zero) : double(real_of(x, scale, zero))));
}

unsigned float_reduce_result(unsigned function, unsigned long long gathered, unsigned number, unsigned scale, int zero,
                             int low, int high, int least) {
    const double sum = wide(gathered);
    float steps;
    if (function == REDUCE_FUSED_MEAN) {
        steps = std::nearbyintf(float(sum) * real(scale));
    } else {
        steps = std::nearbyintf(float(function == REDUCE_MEAN ? sum / number : sum) / real(scale));
    }
    return code_of_steps(steps + float(zero), low, high, least);
}

unsigned long long normal_sum(unsigned fused, unsigned long long sum, int x, unsigned scale, int zero) {
    return fused ? sum + (long long)(x - zero) : wide_bits(wide(sum) + double(real_of(x, scale, zero)));
}

unsigned long long normal_mean(unsigned long long sum, unsigned depth) { return wide_bits(wide(sum) / depth); }

unsigned long long normal_square(unsigned fused, unsigned long long squares, int x, unsigned long long mean,
                                 unsigned scale, int zero) {
    if (fused) return squares + (unsigned long long)((long long)(x - zero) * (x - zero));
    const double centred = double(real_of(x, scale, zero)) - wide(mean);
    return wide_bits(wide(squares) + centred * centred);
}

unsigned long long normal_root(unsigned fused, unsigned long long sum, unsigned long long squares, unsigned depth,
                               unsigned scale, unsigned epsilon) {
    if (!fused) return wide_bits(std::sqrt(wide(squares) / depth + double(real(epsilon))));
    const long long total = (long long)sum;
    const double spread = double((long long)squares * depth - total * total);
    const double s = real(scale);
    const double root = s / std::sqrt(s * s * (spread / (double(depth) * depth)) + double(real(epsilon)));
    return both(float(root), float(-(double(total) / depth) * root));
}

unsigned normal_result(unsigned fused, int x, unsigned long long mean, unsigned long long root, unsigned factor,
                       unsigned addend, unsigned scale, int zero, unsigned output_scale, int output_zero, int low,
                       int high, int least) {
    float steps;
    if (fused) {
        const double a = real(uint32_t(root)), b = real(uint32_t(root >> 32));
        const float normal = float(double(x - zero) * a + b);
        steps = float(double(normal) * real(factor) + double(real(addend)));
    } else {
        const double normal = (double(real_of(x, scale, zero)) - wide(mean)) / wide(root);
        steps = float(normal * double(real(factor)) + double(real(addend))) / real(output_scale);
    }
    return code_of_steps(std::nearbyintf(steps) + float(output_zero), low, high, least);
}

unsigned real_widened(unsigned stored, unsigned long long word) {
    switch (stored) {
        case STORED_INT32: return bits(float(int32_t(word)));
        case STORED_INT64: return bits(float(int64_t(word)));
        case STORED_INT8: return bits(int8_t(word));
        case STORED_UINT8: return bits(uint8_t(word));
        case STORED_FLOAT16: return bits(of_half(word));
        default: return word;
    }
}

unsigned real_narrowed(unsigned stored, unsigned x) { return stored == STORED_FLOAT16 ? half_of(real(x)) : x; }

unsigned real_binary(unsigned function, unsigned activation, unsigned a, unsigned b) {
    if (function >= BINARY_EQUAL) return truth(function, real(a), real(b));
    return bits(activated(binary(function, real(a), real(b)), activation));
}

// Integers of 32 or 64 bits, whose sums, differences and products wrap; the upper bits of 32 are not stored.
unsigned long long whole_binary(unsigned function, unsigned bits, unsigned long long a, unsigned long long b) {
    const int64_t x = bits == 64 ? int64_t(a) : int32_t(a), y = bits == 64 ? int64_t(b) : int32_t(b);
    switch (function) {
        case BINARY_ADD: return a + b;
        case BINARY_SUB: return a - b;
        case BINARY_MUL: return a * b;
        case BINARY_MAX: return x > y ? a : b;
        case BINARY_MIN: return x < y ? a : b;
        case BINARY_FLOOR_MOD: {
            if (y == 0 || y == -1) return 0;  // of -1 the quotient may not fit
            const int64_t rest = x % y;
            return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
        }
        case BINARY_EQUAL: return x == y;
        case BINARY_NOT_EQUAL: return x != y;
        case BINARY_GREATER: return x > y;
        case BINARY_GREATER_EQUAL: return x >= y;
        case BINARY_LESS: return x < y;
        default: return x <= y;
    }
}

unsigned real_unary(unsigned function, unsigned alpha, unsigned x) {
    return bits(unary(function, real(x), real(alpha)));
}

unsigned long long real_reduce_step(unsigned function, unsigned first, unsigned long long gathered, unsigned x) {
    const double element = real(x);
    const bool sums = function == REDUCE_SUM || function == REDUCE_MEAN;
    if (first && !sums) return wide_bits(element);
    const double before = first ? 0 : wide(gathered);
    switch (function) {
        case REDUCE_MAX: return wide_bits(larger(before, element));
        case REDUCE_MIN: return wide_bits(smaller(before, element));
        case REDUCE_PROD: return wide_bits(before * element);
        default: return wide_bits(before + element);
    }
}

unsigned real_reduce_result(unsigned function, unsigned long long gathered, unsigned number) {
    return bits(float(function == REDUCE_MEAN ? wide(gathered) / number : wide(gathered)));
}

unsigned long long real_pool_step(unsigned function, unsigned first, unsigned covered, unsigned long long gathered,
                                  unsigned x) {
    const double element = real(x);
    const double before = !first ? wide(gathered) : function == POOL_MAXIMUM ? -INFINITY : 0;
    if (!covered) return wide_bits(before);
    switch (function) {
        case POOL_MAXIMUM: return wide_bits(larger(before, element));
        case POOL_L2: return wide_bits(before + element * element);
        default: return wide_bits(before + element);
    }
}

unsigned real_pool_result(unsigned function, unsigned activation, unsigned long long gathered, unsigned number) {
    double value = wide(gathered);
    if (function != POOL_MAXIMUM) value /= number;
    if (function == POOL_L2) value = std::sqrt(value);
    return bits(activated(float(value), activation));
}

unsigned real_of_code(unsigned scale, int zero, unsigned x) { return bits(real(scale) * (real(x) - float(zero))); }

// Halves away from zero; what int32 cannot hold is its smallest number, and the sum wraps.
unsigned code_of_real(unsigned stored, unsigned scale, int zero, unsigned x) {
    const double nearest = std::round(double(real(x) / real(scale)));
    const int32_t steps = std::fabs(nearest) <= 2147483647.0 ? int32_t(nearest) : INT32_MIN;
    const int32_t code = int32_t(uint32_t(steps) + uint32_t(zero));
    const int low = stored == STORED_INT8 ? -128 : 0;
    return std::clamp(code, low, low + 255) & 255;
}

}
